// Says why the kernel writes no core.  The conditions and their order are those of fs/coredump.c (do_coredump(), in 6.1
// and, where said, later).
#include "capture/core/core_link.h"
#include "capture/os/kernel_log.h"
#include "capture/os/lines.h"
#include "capture/os/number.h"
#include "capture/os/proc_file.h"

#include <fmt/format.h>

#include <fcntl.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cstring>
#include <vector>

namespace incident::capture {

namespace {

constexpr std::uint64_t ELF_MIN_COREDUMP = 4096; // ELF_EXEC_PAGESIZE
constexpr std::string_view SOCKET = "/run/systemd/coredump";

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == ' '))
        text.remove_suffix(1);
    return text;
}

// SIG_KERNEL_COREDUMP_MASK, include/linux/signal.h.
bool dumps_core(int signal) {
    static constexpr std::array dumping{SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGFPE,
                                        SIGSEGV, SIGBUS, SIGSYS,  SIGXCPU, SIGXFSZ};
    for (const int each : dumping)
        if (each == signal)
            return true;
    return false;
}

std::string signal_text(int signal) {
    const char *name = ::sigabbrev_np(signal);
    return name ? "SIG" + std::string(name) : "signal " + std::to_string(signal);
}

std::string handler_reason(std::string_view pattern) {
    if (pattern.empty())
        return "kernel.core_pattern is empty: cores are not handed to systemd-coredump";
    if (pattern.front() == '@') // 6.16: a socket
        return pattern.find("/systemd/coredump") != std::string_view::npos
                   ? ""
                   : fmt::format("kernel.core_pattern sends cores to a socket ({}), not to systemd-coredump", pattern);
    if (pattern.front() != '|')
        return fmt::format("kernel.core_pattern writes cores to files (\"{}\"), not to systemd-coredump", pattern);
    const std::string_view program = pattern.substr(1, pattern.find(' ') - 1);
    if (program.substr(program.rfind('/') + 1) != "systemd-coredump")
        return fmt::format("kernel.core_pattern hands cores to {}, not to systemd-coredump", program);
    return "";
}

std::string limit_reason(std::uint64_t limit, std::string_view pattern) {
    const bool pipe = pattern.starts_with('|') || pattern.starts_with('@');
    // The value that marks a dump handler itself, so that its crash starts no other one
    // (umh_pipe_setup()); the only one that counts with a pipe, even 0 does not.
    if (pipe && limit == 1)
        return "RLIMIT_CORE is 1, with which the kernel hands no core to a handler";
    if (!pipe && !pattern.empty() && limit < ELF_MIN_COREDUMP)
        return fmt::format("RLIMIT_CORE is {}, less than the smallest core", limit);
    // systemd's own pattern passes the limit on ("%c"; Debian's a huge number in its
    // place), and systemd-coredump stores nothing below a page.
    if (pipe && pattern.find("%c") != std::string_view::npos && limit < ELF_MIN_COREDUMP)
        return fmt::format("RLIMIT_CORE is {}: systemd-coredump logs the crash and stores no core", limit);
    return "";
}

std::string dumpable_reason(std::uint32_t dumpable, std::string_view pattern) {
    if (dumpable == 0)
        return "the process is not dumpable (set-uid, PR_SET_DUMPABLE or an unreadable program, with "
               "fs.suid_dumpable=0)";
    // "suid safe": root only, and then only to a pipe or an absolute path.
    if (dumpable == 2 && !pattern.empty() && pattern.front() != '|' && pattern.front() != '@' && pattern.front() != '/')
        return "the process is dumpable for root only (fs.suid_dumpable=2) and kernel.core_pattern is a relative path";
    return "";
}

// "PID<after>" at the start of text, and what follows it.
bool of_process(std::string_view text, std::string_view before, std::uint32_t pid, std::string_view &rest) {
    const std::string head = fmt::format("{}{}(", before, pid);
    if (pid == 0 || !text.starts_with(head))
        return false;
    rest = text.substr(head.size());
    return true;
}

std::string complaint_in(std::string_view text, std::uint32_t pid) {
    std::string_view rest;
    // 6.1: "Pid 12(comm) over core_pipe_limit", then "Skipping core dump".  comm is the
    // process's own words, so the message is looked for at the end.
    if (of_process(text, "Pid ", pid, rest) && rest.ends_with(") over core_pipe_limit"))
        return "the kernel skipped it: over kernel.core_pipe_limit, too many dumps at once";
    // Since 6.12 (coredump_report_failure()): "coredump: 12(comm): over core_pipe_limit, skipping core dump".
    if (!of_process(text, "coredump: ", pid, rest))
        return "";
    const std::size_t end = rest.rfind("): ");
    if (end == std::string_view::npos)
        return "";
    const std::string_view message = rest.substr(end + 3);
    if (message.starts_with("over core_pipe_limit"))
        return "the kernel skipped it: over kernel.core_pipe_limit, too many dumps at once";
    // Our own event has the limit.  Anybody's process of this number in a pid namespace of hers can make this line.
    if (message.find("RLIMIT_CORE") != std::string_view::npos)
        return "";
    return fmt::format("the kernel reported: {}", message);
}

// Of "[sec.usec] <prio> text"; 0 if there is none.
std::chrono::microseconds time_of(std::string_view line) {
    const std::size_t dot = line.find('.'), end = line.find(']');
    if (!line.starts_with('[') || dot == std::string_view::npos || end == std::string_view::npos || dot > end)
        return {};
    const auto seconds = whole_number<std::uint32_t>(line.substr(1, dot - 1)),
               micros = whole_number<std::uint32_t>(line.substr(dot + 1, end - dot - 1));
    if (!seconds || !micros)
        return {};
    return std::chrono::seconds(*seconds) + std::chrono::microseconds(*micros);
}

// What the kernel itself has logged since the death.  Lines are as host/kernel_log has them: "[sec.usec] <prio> text".
struct KernelLine {
    std::chrono::microseconds time;
    std::string_view text;
};
std::vector<KernelLine> kernel_lines(std::string_view log, MonotonicTime died) {
    constexpr std::chrono::seconds slack(1);
    const auto since = died.ns == 0 ? std::chrono::microseconds(0) : kernel_log_since(died, slack);
    std::vector<KernelLine> lines;
    for (const std::string_view line : lines_of(log)) {
        const std::size_t open = line.find("] <"), close = line.find("> ", open);
        if (open == std::string_view::npos || close == std::string_view::npos)
            continue;
        // Facility 0 is the kernel's; the others were written by programs.
        if (whole_number<unsigned>(line.substr(open + 3, close - open - 3)).value_or(8) > 7)
            continue;
        if (const auto time = time_of(line); time >= since)
            lines.push_back({time, line.substr(close + 2)});
    }
    return lines;
}

std::string kernel_reason(std::string_view log, std::uint32_t pid, std::uint32_t ns_pid, MonotonicTime died) {
    std::string reason; // the last one: an earlier one may be of an earlier process
    for (const KernelLine &line : kernel_lines(log, died))
        // task_tgid_vnr(): the pid as the process's own namespace counts.
        if (std::string found = complaint_in(line.text, ns_pid != 0 ? ns_pid : pid); !found.empty())
            reason = std::move(found);
    return reason;
}

} // namespace

std::string no_core_reason(const CorePrecheck &precheck) {
    const std::string_view pattern = trimmed(precheck.core_pattern);
    if (precheck.signal != 0 && !dumps_core(precheck.signal))
        return signal_text(precheck.signal) + " makes no core";
    if (std::string why = dumpable_reason(precheck.dumpable, pattern); !why.empty())
        return why;
    if (!precheck.core_pattern.empty()) // else unknown
        if (std::string why = handler_reason(pattern); !why.empty())
            return why;
    if (std::string why = limit_reason(precheck.rlimit_core, pattern); !why.empty())
        return why;
    if (std::string why = kernel_reason(precheck.kernel_log, precheck.pid, precheck.ns_pid, precheck.died);
        !why.empty())
        return why;
    if (!precheck.listener)
        return "nothing listens on " + std::string(SOCKET) + " (is systemd-coredump.socket active?)";
    return "";
}

std::string no_handler_hint(const CorePrecheck &precheck) {
    constexpr std::chrono::seconds about(10);
    const std::chrono::microseconds until = std::chrono::microseconds(precheck.died.ns / 1000) + about;
    // do_coredump() in 6.1.  Since 6.12 the line names the process: no_core_reason().
    for (const KernelLine &line : kernel_lines(precheck.kernel_log, precheck.died))
        if (line.time <= until && line.text.starts_with("Core dump to |") && line.text.ends_with(" pipe failed"))
            return "the kernel logged about then that it could not start the handler of a core, which it cannot while "
                   "the machine falls asleep or wakes up";
    return "";
}

bool coredump_socket_listens(const OsRoots &os) {
    // Of the network namespace of pid 1, whose socket it is; ours may be another (PrivateNetwork=).
    const auto table = read_proc_file(AT_FDCWD, (os.proc + "/1/net/unix").c_str(), 64u << 20);
    if (!table)
        return false;
    // "Num RefCount Protocol Flags Type St Inode Path"; flag 0x10000 (__SO_ACCEPTCON): listening.
    for (const std::string_view line : lines_of(table->bytes))
        if (line.size() > SOCKET.size() && line.ends_with(SOCKET) && line[line.size() - SOCKET.size() - 1] == ' ' &&
            line.find(" 00010000 ") != std::string_view::npos)
            return true;
    return false;
}

} // namespace incident::capture
