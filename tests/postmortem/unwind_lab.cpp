#include "unwind_lab.h"

#include "capture/collect/collect.h"
#include "capture/os/unique_fd.h"
#include "postmortem/read/json_view.h"
#include "state.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fcntl.h>
#include <sstream>

namespace incident::postmortem::test {

namespace {

std::string bytes_of_hex(std::string_view hex) {
    std::string bytes;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
        bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
    return bytes;
}

user_regs_struct registers_of_json(JsonView json) {
    user_regs_struct r{};
    const auto value = [&](const char *name) { return json[name].natural().value_or(0); };
    r.r15 = value("r15"), r.r14 = value("r14"), r.r13 = value("r13"), r.r12 = value("r12");
    r.rbp = value("rbp"), r.rbx = value("rbx"), r.r11 = value("r11"), r.r10 = value("r10");
    r.r9 = value("r9"), r.r8 = value("r8"), r.rax = value("rax"), r.rcx = value("rcx");
    r.rdx = value("rdx"), r.rsi = value("rsi"), r.rdi = value("rdi"), r.rip = value("rip");
    r.rsp = value("rsp"), r.eflags = value("eflags"), r.fs_base = value("fs_base"), r.gs_base = value("gs_base");
    r.cs = value("cs");
    return r;
}

CrashImage image_of(const std::filesystem::path &dir) {
    CrashImage image;
    const auto parsed = parse_json(read_file(dir / "capture.json"));
    EXPECT_TRUE(parsed) << "gdb captured nothing";
    if (!parsed)
        return image;
    const JsonView json = *parsed;
    image.pid = static_cast<std::uint32_t>(json["pid"].count());
    image.maps = capture::Maps::parse(json["maps"].text());
    image.maps_whole = true;
    image.auxv = bytes_of_hex(json["auxv"].text());
    const std::string memory = read_file(dir / "memory.bin");
    json["memory"].each([&](JsonView piece) {
        image.memory.add(piece["address"].count(),
                         std::string_view(memory).substr(piece["offset"].count(), piece["length"].count()));
    });
    json["threads"].each([&](JsonView thread) {
        image.threads.push_back({static_cast<std::uint32_t>(thread["tid"].count()), "victim", thread["crashed"].flag(),
                                 registers_of_json(thread["registers"]), ""});
    });
    std::ranges::stable_partition(image.threads, &ImageThread::is_triggers);
    image.isa = isa_of(image);
    image.modules = modules_of_maps(image.maps);
    return image;
}

std::vector<GdbThread> threads_of(const std::filesystem::path &file) {
    std::vector<GdbThread> threads;
    const auto parsed = parse_json(read_file(file));
    EXPECT_TRUE(parsed) << "gdb wrote no frames";
    if (!parsed)
        return threads;
    JsonView(*parsed).each([&](JsonView json) {
        GdbThread &thread = threads.emplace_back();
        thread.tid = static_cast<std::uint32_t>(json["tid"].count());
        thread.end = json["end"].text();
        json["frames"].each([&](JsonView frame) {
            GdbFrame &shown = thread.frames.emplace_back();
            shown.ip = frame["ip"].count();
            shown.name = frame["name"].text();
            shown.kind = frame["kind"].text();
            shown.file = frame["file"].text();
            shown.line = static_cast<unsigned>(frame["line"].count());
            shown.offset = frame["offset"].integer().value_or(-1);
            frame["arguments"].each([&](JsonView argument) {
                shown.arguments.push_back(
                    {std::string(argument["name"].text()), std::string(argument["value"].text())});
            });
        });
    });
    return threads;
}

// Without the parameter list, which gdb prints of functions it knows by their symbol only.
std::string without_parameters(std::string name) {
    constexpr std::string_view anonymous = "(anonymous namespace)";
    if (const std::size_t clone = name.find(" [clone"); clone != std::string::npos)
        name.resize(clone);
    std::size_t depth = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (name[i] == '<')
            ++depth;
        else if (name[i] == '>' && depth)
            --depth;
        else if (name[i] == '(' && depth == 0 && name.compare(i, anonymous.size(), anonymous) != 0 &&
                 !(i >= 8 && name.compare(i - 8, 8, "operator") == 0))
            return name.substr(0, i);
    }
    return name;
}

std::string base_name(const std::string &path) {
    return path.substr(path.rfind('/') + 1);
}

// A name gdb has of a symbol only may be another one of the same address.
bool same_name(const Frame &ours, const GdbFrame &gdb) {
    if (ours.symbol == without_parameters(gdb.name) ||
        (gdb.name.ends_with("@plt") &&
         ours.symbol == without_parameters(gdb.name.substr(0, gdb.name.size() - 4)) + "@plt"))
        return true;
    return gdb.file.empty() && ours.file.empty() && gdb.offset >= 0 && !ours.symbol.empty() &&
           ours.symbol_offset == static_cast<std::uint64_t>(gdb.offset);
}

std::string row(std::uint64_t ip, const std::string &name, const std::string &kind, const std::string &file,
                unsigned line) {
    return fmt::format("{:#014x} {} {}{}", ip, kind, name,
                       file.empty() ? "" : fmt::format(" {}:{}", base_name(file), line));
}

} // namespace

std::vector<ImageModule> modules_of_maps(const capture::Maps &maps) {
    std::vector<ImageModule> modules;
    for (const capture::Mapping &mapping : maps.all()) {
        if (!mapping.is_file())
            continue;
        if (modules.empty() || modules.back().path != mapping.path) {
            ImageModule &module = modules.emplace_back();
            module.path = mapping.path;
            module.start = mapping.start;
            module.first_offset = mapping.offset;
            module.inode = mapping.inode;
            module.major = mapping.major;
            module.minor = mapping.minor;
            const UniqueFd file(::open(mapping.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
            module.build_id = file ? capture::build_id_of_file(file.get()) : "";
        }
        modules.back().end = mapping.end;
    }
    std::erase_if(modules, [&](const ImageModule &module) {
        return std::ranges::none_of(maps.all(), [&](const capture::Mapping &mapping) {
            return mapping.path == module.path && mapping.execute;
        });
    });
    return modules;
}

UnwindLab::UnwindLab() {
    std::string name = (std::filesystem::temp_directory_path() / "incident-unwind-XXXXXX").string();
    if (!mkdtemp(name.data()))
        throw std::runtime_error("no temporary directory");
    dir_ = name;
    std::filesystem::permissions(dir_, std::filesystem::perms(0755));
}

UnwindLab::~UnwindLab() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
}

int UnwindLab::shell(const std::string &command) const {
    return std::system(("cd " + dir_.string() + " && " + command).c_str()); // NOLINT: a test's own command
}

std::filesystem::path UnwindLab::compile(const std::string &name, const std::string &source, const std::string &flags) {
    const bool cxx = source.contains("#include <stdexcept>") || source.contains("namespace ");
    const std::string file = name + (cxx ? ".cpp" : ".c");
    write_file(dir_ / file, source);
    EXPECT_EQ(shell(fmt::format("{} {} -o {} {} -pthread", cxx ? "g++" : "gcc", file, name, flags)), 0) << flags;
    return dir_ / name;
}

Crash UnwindLab::crash(const std::filesystem::path &program, const CrashOptions &options) {
    const std::filesystem::path out = dir_ / fmt::format("run{}", ++runs_);
    std::filesystem::create_directory(out);
    std::string common = "gdb -nx -batch -ex 'set debuginfod enabled off' -ex 'set confirm off' ";
    if (!options.debug_directory.empty())
        common += fmt::format("-ex 'set debug-file-directory {}' ", options.debug_directory);
    common += fmt::format("-ex 'set $out = \"{}\"' ", out.string());
    std::string before, arguments;
    for (const std::string &command : options.gdb_before)
        before += command.empty() ? "" : "-ex '" + command + "' ";
    for (const std::string &argument : options.arguments)
        arguments += " '" + argument + "'";
    std::string command = program.string();
    if (!options.through.empty()) {
        command = options.through;
        for (const std::string &argument : options.through_arguments)
            command += " '" + argument + "'";
        command += " " + program.string();
    }
    const std::string log = " > " + (out / "log").string() + " 2>&1 < " + options.input;
    const std::string second_log = " > " + (out / "log2").string() + " 2>&1 < /dev/null";
    shell(fmt::format("{} {} -ex 'set $stack_max = {}' -ex run -ex 'source {}/unwind/capture.py' --args {}{}{}", common,
                      before, options.stack_max, TEST_DATA, command, arguments, log));
    Crash crash;
    crash.image = image_of(out);
    shell(fmt::format(
        "{} -ex 'set backtrace past-main on' -ex 'set backtrace past-entry on' -ex 'source {}/unwind/frames.py' "
        "{} {}{}",
        common, TEST_DATA, program.string(), (out / "core").string(), second_log));
    crash.threads = threads_of(out / "frames.json");
    if (crash.image.threads.empty() || crash.threads.empty())
        ADD_FAILURE() << read_file(out / "log")
                      << (std::filesystem::exists(out / "log2") ? read_file(out / "log2") : "");
    return crash;
}

Agreement compare(const ThreadStack &ours, const GdbThread &with) {
    Agreement agreement;
    GdbThread gdb = with;
    // Where a process begins in ld.so there is no unwind information, and gdb goes on with what main is given.
    for (std::size_t i = 0; i < gdb.frames.size(); ++i)
        if (gdb.frames[i].name == "_dl_start_user" || gdb.frames[i].name == "_start")
            gdb.frames.resize(i + 1);
    agreement.frames = gdb.frames.size();
    const std::size_t most = std::max(ours.frames.size(), gdb.frames.size());
    std::string rows;
    for (std::size_t i = 0; i < most; ++i) {
        const Frame *a = i < ours.frames.size() ? &ours.frames[i] : nullptr;
        const GdbFrame *b = i < gdb.frames.size() ? &gdb.frames[i] : nullptr;
        bool same = a && b && a->ip == b->ip;
        if (same)
            same = (b->kind == "signal") == a->signal_frame && (b->kind == "inline") == a->inlined &&
                   (b->kind == "tail") == (a->how == "tail call") && (b->kind == "signal" || same_name(*a, *b)) &&
                   (b->kind == "signal" || (base_name(a->file) == base_name(b->file) && a->line == b->line));
        agreement.same += same;
        rows += fmt::format("  {} #{:<2} {}\n       gdb {}\n", same ? ' ' : '!', i,
                            a ? row(a->ip, a->symbol,
                                    a->inlined        ? "inline"
                                    : a->signal_frame ? "signal"
                                                      : a->how,
                                    a->file, a->line)
                              : "-",
                            b ? row(b->ip, b->name, b->kind, b->file, b->line) : "-");
    }
    if (agreement.same != most)
        agreement.differences = rows + "  ours: " + ours.how + "; " + ours.reason + "\n  gdb: " + gdb.end + "\n";
    if (ours.frames.size() > gdb.frames.size()) // ours beyond gdb's do not agree either
        agreement.frames = most;
    return agreement;
}

} // namespace incident::postmortem::test
