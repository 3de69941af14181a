#include "postmortem/doctor/host.h"

#include "capture/decode/syscalls.h"
#include "capture/os/config_files.h"
#include "capture/os/environment.h"
#include "capture/os/maps.h"
#include "capture/os/number.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"
#include "capture/os/users.h"
#include "postmortem/doctor/failed_units.h"
#include "postmortem/read/control_client.h"
#include "rules/engine/engine.h"
#include "rules/files/parse.h"
#include "rules/model/match.h"

#include <fmt/format.h>

#include <algorithm>
#include <fcntl.h>
#include <linux/magic.h>
#include <set>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace incident::postmortem::doctor {

namespace {

constexpr std::uint64_t text_max = 1 << 20;
constexpr std::uint64_t maps_max = 16u << 20;
constexpr std::size_t files_max = 1024; // programs and libraries looked into; those beyond are counted
constexpr std::string_view deleted = " (deleted)";

std::optional<Space> space_of(const std::string &path) {
    struct statvfs space {};
    struct statfs kind {};
    if (::statvfs(path.c_str(), &space) != 0 || ::statfs(path.c_str(), &kind) != 0)
        return std::nullopt;
    std::optional<std::uint64_t> inodes;
    if (space.f_files > 0)
        inodes = space.f_favail;
    return Space{.total = static_cast<std::uint64_t>(space.f_blocks) * space.f_frsize,
                 .free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize,
                 .read_only = (space.f_flag & ST_RDONLY) != 0,
                 .in_memory = kind.f_type == TMPFS_MAGIC || kind.f_type == RAMFS_MAGIC,
                 .free_inodes = inodes};
}

// Whoever keeps the time (timesyncd, chrony, ntpd, a guest's agent) tells the kernel.
std::optional<bool> kernel_clock_synchronized() {
    struct timex state {};
    if (::adjtimex(&state) < 0)
        return std::nullopt;
    return (state.status & STA_UNSYNC) == 0;
}

std::optional<std::uint32_t> system_group(const std::string &name) {
    const auto gid = capture::gid_of_group(name);
    return gid ? std::optional(*gid) : std::nullopt;
}

std::string_view first_word(std::string_view text) {
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(" \t")));
    return text.substr(0, text.find_first_of(" \t\n"));
}

std::uint64_t kibibytes(std::string_view status, std::string_view key) {
    std::string_view value;
    if (!capture::line_value(status, key, value))
        return 0;
    return capture::whole_number<std::uint64_t>(first_word(value)).value_or(0) * 1024;
}

// The soft limit; nullopt where the file says nothing.
std::optional<std::uint64_t> core_limit(std::string_view limits) {
    std::string_view value;
    if (!capture::line_value(limits, "Max core file size", value))
        return std::nullopt;
    const std::string_view word = first_word(value);
    return word == "unlimited" ? std::optional<std::uint64_t>(~0ull) : capture::whole_number<std::uint64_t>(word);
}

std::string first_line(const std::string &text) {
    return text.substr(0, text.find('\n'));
}

} // namespace

std::string shell_word(const std::string &text) {
    const bool plain = !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
        return std::isalnum(c) || std::string_view("@%+=:,./_-").find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (plain)
        return text;
    std::string word = "'";
    for (const char c : text)
        word += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return word + "'";
}

Host::Host(std::string root)
    : space(space_of), clock_synchronized(kernel_clock_synchronized),
      failed_units([this] { return failed_units_of_systemd(booted_with_systemd()); }),
      ask([](const std::string &state) { return ask_daemon(state, "status"); }), gid_of_group(system_group),
      run(run_program), root_user(::geteuid() == 0), root_(std::move(root)) {
    if (const char *urls = capture::environment("DEBUGINFOD_URLS"))
        debuginfod_urls = urls;
    os_.proc = root_ + os_.proc;
    os_.sys = root_ + os_.sys;
    os_.cgroup = root_ + os_.cgroup;
    os_.dev_kmsg = root_ + os_.dev_kmsg;
    os_.coredump = root_ + os_.coredump;
}

bool Host::exists(const std::string &absolute) const {
    return ::access(path(absolute).c_str(), F_OK) == 0;
}

Result<std::string> Host::read(const std::string &absolute) const {
    auto text = capture::read_proc_file(AT_FDCWD, path(absolute).c_str(), text_max);
    if (!text)
        return fail(text.error());
    while (text->bytes.ends_with('\n'))
        text->bytes.pop_back();
    return std::move(text->bytes);
}

std::string Host::install(const std::string &debian, const std::string &fedora) const {
    const bool rpm = !exists("/usr/bin/apt") && exists("/usr/bin/dnf");
    return rpm ? "dnf install " + fedora : "apt install " + debian;
}

bool Host::a_rule_wants(const std::string &kind) const {
    return std::ranges::any_of(rules_, [&](const rules::Rule &rule) {
        return rule.enabled &&
               std::ranges::any_of(rule.conditions, [&](const rules::Condition &c) { return c.kind == kind; });
    });
}

void Host::survey(const Questions &questions) {
    questions_ = questions;
    coredump_conf_ = read_systemd_config(root_, "coredump.conf");
    journald_conf_ = read_systemd_config(root_, "journald.conf");
    status_ = ask(questions.state);
    if (status_ && !status_->is_object())
        status_ = fail("incidentd's answer is not a JSON object");
    ask_where();
    read_rules();
    read_processes();
    read_programs();
}

// A running incidentd knows which files it was given; what was asked for by name goes first.
void Host::ask_where() {
    if (!status_)
        return;
    const JsonView status(*status_);
    if (const std::string config(status["config"].text()); questions_.config.empty() && !config.empty())
        config_file_ = config;
    if (questions_.rules.empty())
        status["rule_directories"].each([&](JsonView directory) { rule_dirs_.emplace_back(directory.text()); });
}

void Host::add_unread(const Error &error) {
    (error.code == EACCES ? unseen_files_ : file_errors_).push_back(error.what);
}

void Host::add_diagnostics(const std::vector<rules::Diagnostic> &diagnostics) {
    for (const rules::Diagnostic &diagnostic : diagnostics)
        (diagnostic.severity == rules::Severity::Error ? file_errors_ : file_warnings_)
            .push_back(first_line(diagnostic.text()));
}

void Host::read_rules() {
    const std::string config = !questions_.config.empty() ? questions_.config
                               : !config_file_.empty()    ? config_file_
                                                          : path(capture::default_config);
    if (!questions_.config.empty() || !config_file_.empty() || exists(capture::default_config)) {
        if (auto text = capture::read_config_file(config)) {
            auto parsed = rules::parse_config({config, std::move(*text)});
            config_ = parsed.config;
            add_diagnostics(parsed.diagnostics);
        } else {
            add_unread(text.error());
        }
    }
    std::vector<std::string> directories = questions_.rules.empty() ? rule_dirs_ : questions_.rules;
    if (directories.empty())
        for (const std::string &directory : capture::default_rule_dirs)
            directories.push_back(path(directory));
    auto read = capture::read_config_files(directories, !questions_.rules.empty());
    if (!read) {
        add_unread(read.error());
        return;
    }
    rule_file_count_ = read->files.size();
    std::vector<rules::Source> sources;
    for (auto &file : read->files)
        sources.push_back({std::move(file.path), std::move(file.text)});
    rules::Lookups lookups;
    lookups.uid_of = capture::uid_of_user;
    lookups.syscall_names = []() -> const std::vector<std::string> & { return capture::syscall_names(); };
    lookups.allow_dump = config_.safety.allow_dump;
    auto parsed = rules::parse_rules(sources, lookups);
    add_diagnostics(parsed.diagnostics);
    rules_ = std::move(parsed.rules);
}

void Host::read_processes() {
    const auto pids = capture::numbers_in(AT_FDCWD, os_.proc.c_str());
    if (!pids)
        return;
    const rules::Engine engine(rules_);
    const std::uint64_t daemon = status_ ? JsonView(*status_)["pid"].count() : 0;
    for (const std::uint32_t pid : *pids) {
        const std::string directory = fmt::format("/proc/{}", pid);
        const auto status = read(directory + "/status");
        std::string_view value;
        // A kernel thread has no memory (VmSize is missing); we and incidentd are not what is watched.
        if (!status || !capture::line_value(*status, "VmSize:", value) || pid == daemon ||
            (root_.empty() && static_cast<pid_t>(pid) == ::getpid()))
            continue;
        const auto identity = capture::identify(os_, pid);
        if (!identity)
            continue;
        Process process;
        process.facts = {.pid = pid,
                         .uid = identity->uid,
                         .comm = identity->comm,
                         .exe = identity->exe,
                         .cgroup = identity->cgroup,
                         .unit = identity->unit};
        process.program_seen = !identity->exe.empty();
        if (identity->exe.ends_with(deleted)) {
            process.facts.exe.resize(process.facts.exe.size() - deleted.size());
            process.replaced = !identity->exe.starts_with("/memfd:"); // which never was in a directory
        }
        if (!process.program_seen)
            ++unseen_;
        if (!engine.watches(process.facts))
            continue;
        process.named = std::ranges::any_of(rules_, [&](const rules::Rule &rule) {
            return rule.enabled && !rule.match.everything() && rules::matches(rule.match, process.facts);
        });
        process.memory_bytes = kibibytes(*status, "VmRSS:") + kibibytes(*status, "VmSwap:");
        if (const auto limits = read(directory + "/limits"))
            process.rlimit_core = core_limit(*limits);
        if (const auto filter = read(directory + "/coredump_filter"))
            process.core_filter = capture::whole_number<std::uint32_t>(*filter, 16);
        struct stat st {};
        process.hidden = ::stat(path(directory).c_str(), &st) == 0 && st.st_uid == 0 && process.facts.uid != 0;
        processes_.push_back(std::move(process));
    }
}

// Collects everything that the named processes have mapped. If rules are about all processes, or no named process runs,
// it collects only the programs.
void Host::read_programs() {
    programs_named_ = std::ranges::any_of(processes_, &Process::named);
    std::vector<ElfInput> files;
    std::set<std::string> known;
    const auto add = [&](std::string file, std::vector<std::string> places, bool library) {
        if (!known.insert(file).second)
            return;
        if (files.size() < files_max)
            files.push_back({std::move(file), std::move(places), library});
        else
            ++programs_left_out_;
    };
    for (Process &process : processes_) {
        const std::string directory = fmt::format("{}/{}", os_.proc, process.facts.pid);
        const auto text = capture::read_proc_file(AT_FDCWD, (directory + "/maps").c_str(), maps_max);
        const auto maps = capture::Maps::parse(text ? text->bytes : "");
        const bool looked_into = process.program_seen && (process.named || !programs_named_);
        if (looked_into)
            add(process.facts.exe, // by its path where it has ended since
                {directory + "/exe", process.replaced ? directory + "/exe" : path(process.facts.exe)}, false);
        for (const capture::Mapping &mapping : maps.all()) {
            if (!mapping.execute || !mapping.is_file() || mapping.path == process.facts.exe)
                continue;
            if (mapping.deleted && !mapping.path.starts_with("/memfd:") && process.replaced_library.empty())
                process.replaced_library = mapping.path;
            if (looked_into && programs_named_)
                add(mapping.path, // the very file, also of another root or a removed one
                    {fmt::format("{}/map_files/{:x}-{:x}", directory, mapping.start.value, mapping.end.value),
                     path(mapping.path)},
                    true);
        }
    }
    programs_ = look_at_elf_files(files, path("/usr/lib/debug"));
    std::vector<ModuleState> modules(programs_.size());
    for (std::size_t i = 0; i < programs_.size(); ++i)
        modules[i] = {.path = programs_[i].path,
                      .build_id = programs_[i].build_id,
                      .file = "used",
                      .debug = programs_[i].debug,
                      .install = {},
                      .on_a_stack = programs_[i].problem.empty()};
    add_install_hints(modules, run);
    for (std::size_t i = 0; i < programs_.size(); ++i)
        programs_[i].install = modules[i].install;
}

} // namespace incident::postmortem::doctor
