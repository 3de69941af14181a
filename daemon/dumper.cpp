#include "daemon/dumper.h"

#include "capture/core_link.h"
#include "capture/proc_file.h"
#include "capture/proc_stat.h"
#include "capture/syscalls.h"
#include "capture/unique_fd.h"
#include "rules/escape.h"
#include "rules/glob.h"
#include "rules/match.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace incident::daemon {

namespace {

constexpr std::uint64_t hour_ns = 3600ull * 1'000'000'000;
constexpr std::uint64_t mebibyte = 1 << 20;

std::string read_text(const std::string &path) {
    const auto text = capture::read_proc_file(AT_FDCWD, path.c_str(), 1 << 20);
    return text ? text->bytes : std::string();
}

// "SigCgt:\t0000000180014a07": bit n - 1 is signal n.
bool in_mask(std::string_view status, std::string_view key, int signal) {
    std::string_view value;
    if (!capture::line_value(status, key, value))
        return false;
    std::uint64_t mask = 0;
    const std::size_t begin = value.find_first_not_of(" \t");
    if (begin == std::string_view::npos)
        return false;
    std::from_chars(value.data() + begin, value.data() + value.size(), mask, 16);
    return mask >> (signal - 1) & 1;
}

std::uint64_t number_of(std::string_view text, std::string_view key) {
    std::string_view value;
    std::uint64_t number = 0;
    if (!capture::line_value(text, key, value))
        return 0;
    const std::size_t begin = value.find_first_not_of(" \t");
    if (begin != std::string_view::npos)
        std::from_chars(value.data() + begin, value.data() + value.size(), number);
    return number;
}

// Soft limit of "Max core file size" in /proc/PID/limits.
std::uint64_t core_limit(std::string_view limits) {
    constexpr std::string_view name = "Max core file size";
    const std::size_t at = limits.find(name);
    if (at == std::string_view::npos)
        return ~0ull;
    std::string_view value = limits.substr(at + name.size());
    value.remove_prefix(std::min(value.size(), value.find_first_not_of(' ')));
    std::uint64_t limit = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), limit);
    return error == std::errc() ? limit : ~0ull; // "unlimited"
}

} // namespace

// What the pre-check looked at, and what keeps the signal from being sent.
struct Dumper::Findings {
    std::vector<std::string> seen;
    std::string refused;
};

std::string Dumper::forbidden(const rules::ProcessFacts &process) const {
    if (!safety_.allow_dump)
        return "[safety] allow_dump is false";
    if (process.pid == 0)
        return "there is no process to signal";
    if (process.pid == 1)
        return "pid 1 is never signalled";
    if (process.pid == static_cast<std::uint32_t>(::getpid()))
        return "incidentd does not signal itself";
    // A kernel thread has no executable (exe is no link) and no memory (VmSize is missing).
    const std::string status = read_text(fmt::format("{}/{}/status", os_.proc, process.pid));
    std::string_view value;
    if (!status.empty() && !capture::line_value(status, "VmSize:", value))
        return "kernel threads and processes without memory are never signalled";
    std::vector<std::string> names = rules::units_of_cgroup(process.cgroup);
    names.insert(names.end(), {process.comm, process.exe, process.unit});
    for (const std::string &name : names)
        for (const std::string &pattern : safety_.never)
            if (!name.empty() && rules::glob_matches(pattern, name))
                return fmt::format("[safety] never has {}, which matches {}", rules::quote(pattern),
                                   rules::quote(name));
    return {};
}

Dumper::Findings Dumper::examine(const rules::ProcessFacts &process, int signal, std::uint32_t dumpable) const {
    Findings found;
    const std::string directory = fmt::format("{}/{}", os_.proc, process.pid);
    const std::string status = read_text(directory + "/status"), limits = read_text(directory + "/limits");
    const std::string name = capture::signal_name(signal);
    if (in_mask(status, "SigIgn:", signal))
        found.refused = fmt::format("the process ignores {}: it would not dump", name);
    else if (in_mask(status, "SigCgt:", signal))
        found.refused = fmt::format("the process handles {} itself: whether it would dump is its own affair", name);
    found.seen.push_back(
        fmt::format("{} is {}", name, found.refused.empty() ? "at its default action" : "not at its default action"));
    if (in_mask(status, "SigBlk:", signal))
        found.seen.push_back(fmt::format("the main thread blocks {}: another one takes it, or it stays pending", name));

    capture::CorePrecheck check;
    check.signal = signal;
    check.rlimit_core = core_limit(limits);
    check.dumpable = dumpable;
    check.pid = process.pid;
    check.core_pattern = read_text(os_.proc + "/sys/kernel/core_pattern");
    check.listener = capture::coredump_socket_listens(os_);
    const std::string no_core = capture::no_core_reason(check);
    found.seen.push_back(no_core.empty()
                             ? "nothing speaks against a core: RLIMIT_CORE, core_pattern and its listener allow one"
                             : no_core);
    if (found.refused.empty() && !no_core.empty())
        found.refused = "it would be killed without a core: " + no_core;

    const std::uint64_t resident = number_of(status, "VmRSS:") * 1024;
    struct statvfs space {};
    if (::statvfs(os_.coredump.c_str(), &space) == 0) {
        const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
        found.seen.push_back(
            fmt::format("{} MiB resident, {} MiB free where cores go", resident / mebibyte, free / mebibyte));
        if (found.refused.empty() && free < resident)
            found.refused = "not enough space where cores go";
    }
    return found;
}

std::uint32_t Dumper::left(std::uint64_t now_ns) {
    while (!sent_.empty() && sent_.front() + hour_ns <= now_ns)
        sent_.pop_front();
    return safety_.allow_dump && sent_.size() < safety_.dumps_per_hour
               ? safety_.dumps_per_hour - static_cast<std::uint32_t>(sent_.size())
               : 0;
}

capture::DumpRecord Dumper::dump(const rules::Dump &wanted, const rules::ProcessFacts &process, std::uint32_t dumpable,
                                 std::uint64_t now_ns) {
    capture::DumpRecord record{.asked = true, .dry_run = wanted.dry_run, .signal = wanted.signal};
    record.refused = forbidden(process);
    if (record.refused.empty() && left(now_ns) == 0)
        record.refused = fmt::format("{} were made to dump in the last hour ([safety] dumps_per_hour)", sent_.size());
    if (!record.refused.empty())
        return record;
    // The descriptor first, the start time through it afterwards: from then on it is that process, or none.
    const UniqueFd process_fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (!process_fd) {
        record.refused = Error::system("the process is gone").what;
        return record;
    }
    const auto stat = capture::parse_proc_stat(read_text(fmt::format("{}/{}/stat", os_.proc, process.pid)));
    if (!stat || stat->start_ticks != capture::start_ticks_of(process.start_boot_ns)) {
        record.refused = "the process is gone, its pid is another's now";
        return record;
    }
    Findings found = examine(process, wanted.signal, dumpable);
    record.findings = std::move(found.seen);
    record.refused = std::move(found.refused);
    if (!record.refused.empty())
        return record;
    if (wanted.dry_run) {
        record.refused = "dry_run: it would have been sent";
        return record;
    }
    if (::syscall(SYS_pidfd_send_signal, process_fd.get(), wanted.signal, nullptr, 0) != 0) {
        record.refused = Error::system("sending the signal").what;
        return record;
    }
    record.sent = true;
    sent_.push_back(now_ns);
    return record;
}

void Dumper::sent_by_kernel(std::uint64_t now_ns) {
    sent_.push_back(now_ns);
}

std::string Dumper::objection(const rules::ProcessFacts &process, int signal) const {
    if (std::string why = forbidden(process); !why.empty())
        return why;
    constexpr std::uint32_t dumpable = 1; // SUID_DUMP_USER: not known before the process is captured
    return examine(process, signal, dumpable).refused;
}

} // namespace incident::daemon
