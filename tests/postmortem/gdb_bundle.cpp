#include "gdb_bundle.h"

#include "postmortem/gdb/gdb_script.h"

#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sstream>

namespace incident::postmortem::test {

namespace fs = std::filesystem;

std::string quoted(const std::string &text) {
    std::string word = "'";
    for (const char c : text)
        word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
}

std::string output_of(const std::string &command) {
    std::string text;
    FILE *const pipe = popen(("{ " + command + "; } 2>&1").c_str(), "re");
    if (!pipe)
        return "popen failed";
    char buffer[4096];
    for (std::size_t got; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;)
        text.append(buffer, got);
    pclose(pipe);
    return text;
}

std::optional<GdbBundle> GdbBundle::make(State &state, std::string &why, const std::string &environment) {
    const std::string dir = state.dir().string(), made = dir + "/made", data = std::string(TEST_DATA) + "/gdb/";
    GdbBundle bundle;
    bundle.victim = dir + "/victim";
    fs::create_directory(made);
    why = output_of("gcc -g -O0 -fno-omit-frame-pointer -pthread -Wl,--build-id -o " + bundle.victim + " " + data +
                    "victim.c && env " + environment + " OUT=" + made +
                    " gdb -nx -q -batch -iex 'set debuginfod enabled off' -x " + data + "make_bundle.py " +
                    bundle.victim);
    if (!fs::exists(made + "/incident.json"))
        return std::nullopt;
    bundle.core = dir + "/core";
    fs::rename(made + "/core", bundle.core);
    Files files{{"mini.core", read_file(bundle.core)}};
    for (const auto &entry : fs::recursive_directory_iterator(made))
        if (entry.is_regular_file())
            files.emplace_back(fs::relative(entry.path(), made), read_file(entry.path()));
    for (const GdbFile &file : gdb_files)
        files.emplace_back("gdb/" + std::string(file.name), file.text);
    bundle.incident = Json::parse(read_file(made + "/incident.json"));
    bundle.threads = Json::parse(read_file(made + "/threads.json"));
    const std::string name = bundle.incident["id"];
    state.add(name, files);
    bundle.path = state.bundle(name).string();
    return bundle;
}

std::string GdbBundle::open(const std::vector<std::string> &commands, const std::string &directory) const {
    std::string line = "cd " + quoted(directory) +
                       " && env -u INCIDENT_BUNDLE -u INCIDENT_CORE gdb -nx -q -batch"
                       " -iex 'set debuginfod enabled off' -iex 'set width 0' -x " +
                       quoted(path + "/gdb/open.gdb");
    for (const std::string &command : commands)
        line += " -ex " + quoted(command);
    return output_of(line);
}

std::map<std::string, std::string> GdbBundle::ask(const std::vector<std::string> &commands) const {
    std::vector<std::string> marked;
    for (std::size_t i = 0; i < commands.size(); ++i) {
        marked.push_back("echo \\n@" + std::to_string(i) + "@\\n");
        marked.push_back(commands[i]);
    }
    const std::string text = open(marked);
    std::map<std::string, std::string> answers;
    for (std::size_t i = 0; i < commands.size(); ++i) {
        const std::string mark = "\n@" + std::to_string(i) + "@\n";
        const std::size_t start = text.find(mark), end = text.find("\n@" + std::to_string(i + 1) + "@\n");
        if (start == std::string::npos)
            ADD_FAILURE() << "no answer to " << commands[i] << " in\n" << text;
        else
            answers[commands[i]] = text.substr(start + mark.size(), end - start - mark.size());
    }
    return answers;
}

std::uint64_t printed_number(const std::string &text) {
    std::size_t at = text.find(" = ");
    at = at == std::string::npos ? 0 : at + 3;
    if (const std::size_t hex = text.find("0x", at); hex != std::string::npos)
        at = hex;
    return std::strtoull(text.c_str() + at, nullptr, 0);
}

std::vector<std::string> labelled(const std::string &explained, const std::string &label) {
    constexpr std::size_t columns = 10;
    std::vector<std::string> lines;
    std::istringstream in(explained);
    bool ours = false;
    for (std::string line; std::getline(in, line);) {
        if (line.size() < columns + 2)
            continue;
        std::string name = line.substr(0, columns);
        name.erase(0, name.find_first_not_of(' '));
        if (!name.empty())
            ours = name == label;
        if (ours)
            lines.push_back(line.substr(columns + 2));
    }
    return lines;
}

} // namespace incident::postmortem::test
