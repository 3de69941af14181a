// The host as the checks see it. The checks read everything through this class, so that tests can give them an invented
// host.
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
#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem::doctor {

// The space on a path's file system.
struct Space {
    std::uint64_t total = 0, free = 0; // bytes; free: for users other than root
    bool read_only = false;
    bool in_memory = false;                   // tmpfs: it does not survive a boot
    std::optional<std::uint64_t> free_inodes; // if the file system has a fixed number of them
};

// A process that the rules are about.
struct Process {
    rules::ProcessFacts facts;
    bool named = false;             // a rule with a `match` names it, not only rules about every process
    bool replaced = false;          // its program was removed or replaced since it started
    std::string replaced_library;   // the first mapped library that was removed or replaced; "" none
    bool program_seen = false;      // facts.exe could be read
    std::uint64_t memory_bytes = 0; // resident and swapped: about the size of its core
    std::optional<std::uint64_t> rlimit_core;
    std::optional<std::uint32_t> core_filter; // /proc/PID/coredump_filter
    bool hidden = false; // root owns /proc/PID though the process has another user: the process is not dumpable
};

// Quotes a word of a command for a shell: "'it'\''s'".
std::string shell_word(const std::string &text);

struct Questions {
    std::string state = "/var/lib/incidentd";
    std::string config;             // "": the running incidentd's, or the default file if it exists
    std::vector<std::string> rules; // empty: the running incidentd's, or the default directories
};

class Host {
public:
    // root: "" for this host, or a directory with an invented host's /proc, /sys, /etc, /usr, /run and /var.
    explicit Host(std::string root = "");
    Host(const Host &) = delete;
    Host &operator=(const Host &) = delete;

    // Answers that come from system calls and sockets; tests replace them.
    std::function<std::optional<Space>(const std::string &path)> space;
    std::function<std::optional<bool>()> clock_synchronized;
    std::function<Result<std::vector<std::string>>()> failed_units; // names
    std::function<Result<Json>(const std::string &state)> ask;      // the daemon's status
    std::function<std::optional<std::uint32_t>(const std::string &group)> gid_of_group;
    RunProgram run; // gdb, dpkg-query
    std::string debuginfod_urls;
    bool root_user = true;

    // Reads what several checks need. Must be called before the first check.
    void survey(const Questions &questions);

    std::string path(const std::string &absolute) const { return root_ + absolute; }
    bool exists(const std::string &absolute) const;
    // A hint how to see more; "" for root, who sees everything.
    std::string as_root() const { return root_user ? "" : "run as root"; }
    // The file's text without its last newline.
    Result<std::string> read(const std::string &absolute) const;
    const capture::OsRoots &os() const { return os_; }
    // The command that installs a package, given its names in Debian and in Fedora.
    std::string install(const std::string &debian, const std::string &fedora) const;
    // True if systemd started this host.
    bool booted_with_systemd() const { return exists("/run/systemd/system"); }
    const SystemdConfig &coredump_conf() const { return coredump_conf_; }
    const SystemdConfig &journald_conf() const { return journald_conf_; }

    const Questions &questions() const { return questions_; }
    const Result<Json> &status() const { return status_; }
    const rules::Config &config() const { return config_; }
    const std::vector<rules::Rule> &rules() const { return rules_; }
    // The first line of each diagnostic of rules and configuration. The errors include files that could not be read.
    const std::vector<std::string> &file_errors() const { return file_errors_; }
    const std::vector<std::string> &file_warnings() const { return file_warnings_; }
    const std::vector<std::string> &unseen_files() const {
        return unseen_files_;
    } // files that we have no permission to read
    std::size_t rule_files() const { return rule_file_count_; }
    bool a_rule_wants(const std::string &kind) const; // an enabled rule has a condition of this kind

    const std::vector<Process> &processes() const { return processes_; }
    std::size_t unseen_processes() const { return unseen_; } // processes whose program only root can see
    // Programs of the processes that a `match` names (of all processes if there is none), and the libraries they
    // mapped.
    const std::vector<ElfReport> &programs() const { return programs_; }
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
    std::string config_file_;            // the running incidentd's; "": none runs, or it was not asked
    std::vector<std::string> rule_dirs_; // likewise
    rules::Config config_;
    std::vector<rules::Rule> rules_;
    std::vector<std::string> file_errors_, file_warnings_, unseen_files_;
    std::size_t rule_file_count_ = 0;
    std::vector<Process> processes_;
    std::size_t unseen_ = 0;
    std::vector<ElfReport> programs_;
    bool programs_named_ = false;
    std::size_t programs_left_out_ = 0;
};

} // namespace incident::postmortem::doctor
