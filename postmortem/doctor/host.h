// The host as the checks see it.  Whatever they read comes through here, so that tests show them
// made-up ones.
#pragma once

#include "capture/collect/collect.h"
#include "postmortem/doctor/elf_look.h"
#include "postmortem/doctor/systemd_config.h"
#include "postmortem/read/json_view.h"
#include "postmortem/unwind/install_hint.h"
#include "rules/files/config.h"
#include "rules/model/rule.h"
#include "rules/toml/diagnostic.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem::doctor {

// Of the file system a path lies on.
struct Space {
    std::uint64_t total = 0, free = 0; // bytes; free: to those who are not root
    bool read_only = false;
    bool in_memory = false;                   // tmpfs: gone with the next boot
    std::optional<std::uint64_t> free_inodes; // where the file system has a fixed number of them
};

// A process the rules are about.
struct Process {
    rules::ProcessFacts facts;
    bool named = false;             // by a rule that has a `match`, not only by those about every process
    bool replaced = false;          // its program was removed or replaced since it started
    std::string replaced_library;   // the same of one it has mapped: the first; "" none
    bool program_seen = false;      // facts.exe could be read
    std::uint64_t memory_bytes = 0; // resident and swapped: about what a core of it takes
    std::optional<std::uint64_t> rlimit_core;
    std::optional<std::uint32_t> core_filter; // /proc/PID/coredump_filter
    bool hidden = false; // /proc/PID is root's though the process is not: it is not dumpable by its user
};

// "'it'\''s'": a word of a command to be copied into a shell.
std::string shell_word(const std::string &text);

struct Questions {
    std::string state = "/var/lib/incidentd";
    std::string config;             // "": the running incidentd's, else the default file, where it is
    std::vector<std::string> rules; // empty: the running incidentd's, else the default directories
};

class Host {
public:
    // root: "" of this one, else a directory that holds a made-up one's /proc, /sys, /etc, /usr, /run and /var.
    explicit Host(std::string root = "");
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    // What lies behind system calls and sockets; replaced by tests.
    std::function<std::optional<Space>(const std::string &path)> space;
    std::function<std::optional<bool>()> clock_synchronized;
    std::function<Result<std::vector<std::string>>()> failed_units; // names
    std::function<Result<Json>(const std::string &state)> ask;      // the daemon's status
    std::function<std::optional<std::uint32_t>(const std::string &group)> gid_of_group;
    RunProgram run; // gdb, dpkg-query
    std::string debuginfod_urls;
    bool root_user = true;

    // Reads what several checks need; before the first of them.
    void survey(const Questions &questions);

    std::string path(const std::string &absolute) const { return root_ + absolute; }
    bool exists(const std::string &absolute) const;
    // What lets one see more; "" for root, who sees all there is.
    std::string as_root() const { return root_user ? "" : "run as root"; }
    // Its text without the newline at its end.
    Result<std::string> read(const std::string &absolute) const;
    const capture::OsRoots &os() const { return os_; }
    // The command that installs a package, by the names Debian and Fedora give it.
    std::string install(const std::string &debian, const std::string &fedora) const;
    // systemd is what started this host.
    bool booted_with_systemd() const { return exists("/run/systemd/system"); }
    const SystemdConfig &coredump_conf() const { return coredump_conf_; }
    const SystemdConfig &journald_conf() const { return journald_conf_; }

    const Questions &questions() const { return questions_; }
    const Result<Json> &status() const { return status_; }
    const rules::Config &config() const { return config_; }
    const std::vector<rules::Rule> &rules() const { return rules_; }
    // Of rules and configuration, the first line of each diagnostic; errors also what could not be read.
    const std::vector<std::string> &file_errors() const { return file_errors_; }
    const std::vector<std::string> &file_warnings() const { return file_warnings_; }
    const std::vector<std::string> &unseen_files() const { return unseen_files_; } // we may not read
    std::size_t rule_files() const { return rule_file_count_; }
    bool a_rule_wants(const std::string &kind) const; // an enabled one has a condition of it

    const std::vector<Process> &processes() const { return processes_; }
    std::size_t unseen_processes() const { return unseen_; } // whose program only root may see
    // Programs of the processes named by a `match`, of all where none is, and the libraries they mapped.
    const std::vector<ElfFacts> &programs() const { return programs_; }
    bool programs_are_named() const { return programs_named_; }
    std::size_t programs_left_out() const { return programs_left_out_; }

private:
    void add_unread(const Error &error);
    void add_diagnostics(const std::vector<rules::Diagnostic> &diagnostics);
    void ask_where();
    void read_rules();
    void read_processes();
    void read_programs();

    std::string root_;
    capture::OsRoots os_;
    Questions questions_;
    SystemdConfig coredump_conf_, journald_conf_;
    Result<Json> status_ = fail("incidentd was not asked");
    std::string config_file_;            // of the running incidentd; "": none, or it was not asked
    std::vector<std::string> rule_dirs_; // likewise
    rules::Config config_;
    std::vector<rules::Rule> rules_;
    std::vector<std::string> file_errors_, file_warnings_, unseen_files_;
    std::size_t rule_file_count_ = 0;
    std::vector<Process> processes_;
    std::size_t unseen_ = 0;
    std::vector<ElfFacts> programs_;
    bool programs_named_ = false;
    std::size_t programs_left_out_ = 0;
};

} // namespace incident::postmortem::doctor
