#include "postmortem/unwind/code_makers.h"

#include <algorithm>

namespace incident::postmortem {

namespace {

struct LoadedFile {
    std::string_view begins; // its name, up to a digit, '-' or '.'
    CodeMaker maker;
};

constexpr CodeMaker v8{"V8", "--perf-basic-prof"}, java{"the Java VM", "jcmd PID Compiler.perfmap"},
    luajit{"LuaJIT", ""}, dotnet{".NET", "DOTNET_PerfMapEnabled=1"}, mono{"Mono", "MONO_DEBUG=jitmap"},
    pcre{"PCRE", ""}, ffi{"libffi", ""};

constexpr LoadedFile loaded_files[] = {
    {"libjvm", java},
    {"node", v8},
    {"nodejs", v8},
    {"libnode", v8},
    {"libv8", v8},
    {"chrome", v8},
    {"chromium", v8},
    {"electron", v8},
    {"deno", v8},
    {"libluajit", luajit},
    {"luajit", luajit},
    {"libcoreclr", dotnet},
    {"libmonosgen", mono},
    {"mono", mono},
    {"libruby", {"Ruby", "--yjit-perf"}},
    {"libpypy", {"PyPy", ""}},
    {"libmozjs", {"SpiderMonkey", ""}},
    {"libjavascriptcoregtk", {"JavaScriptCore", ""}},
    {"libQt5Qml", {"Qt's QML", ""}},
    {"libQt6Qml", {"Qt's QML", ""}},
    {"libLLVM", {"LLVM", ""}},
    {"libpcre", pcre},
    {"libpcre2", pcre},
    {"libffi", ffi},
};

} // namespace

std::vector<CodeMaker> code_makers(const std::vector<ImageModule> &modules) {
    std::vector<CodeMaker> makers;
    for (const ImageModule &module : modules) {
        const std::string_view file = std::string_view(module.path).substr(module.path.rfind('/') + 1);
        for (const LoadedFile &known : loaded_files) {
            if (!file.starts_with(known.begins))
                continue;
            const std::string_view rest = file.substr(known.begins.size());
            const bool whole = rest.empty() || rest[0] == '.' || rest[0] == '-' || (rest[0] >= '0' && rest[0] <= '9');
            if (whole && std::ranges::find(makers, known.maker.name, &CodeMaker::name) == makers.end())
                makers.push_back(known.maker);
        }
    }
    return makers;
}

} // namespace incident::postmortem
