#include "daemon/dump/dumper.h"

#include "capture/core/core_link.h"
#include "capture/decode/syscalls.h"
#include "capture/os/proc_file.h"
#include "capture/os/proc_stat.h"
#include "capture/os/process_dir.h"
#include "capture/os/unique_fd.h"
#include "daemon/dump/proc_text.h"
#include "daemon/dump/signal_takers.h"
#include "rules/model/match.h"
#include "rules/model/user.h"
#include "rules/text/escape.h"
#include "rules/text/glob.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

namespace incident::daemon {

namespace {

constexpr const char *another_program = "the process has executed another program since the rule fired";
constexpr std::uint64_t mebibyte = 1 << 20;
constexpr std::uint64_t incident_room = 4 * mebibyte; // one of a thousand threads has less

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

// Its own number in its own pid namespace is 1, and that is not the machine's: the kernel drops signals to it that are
// at their default action (kernel/signal.c, sig_task_ignored: SIGNAL_UNKILLABLE).
bool is_init_of_a_namespace(std::string_view status) {
    std::string_view value;
    if (!capture::line_value(status, "NSpid:", value))
        return false;
    const std::size_t last = value.find_last_of(" \t");
    return last != std::string_view::npos && value.find_first_of("0123456789") < last && value.substr(last + 1) == "1";
}

constexpr std::size_t most_threads = 4096; // asked whether they block a signal

// A signal that no thread takes stays pending, and kills whenever one of them unblocks it.
bool every_thread_blocks(const std::string &process, int signal) {
    const UniqueFd tasks(::open((process + "/task").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto tids = tasks ? capture::numbers_in(tasks.get(), ".") : Result<std::vector<std::uint32_t>>(fail("gone"));
    if (!tids || tids->empty())
        return true; // nobody is known to take it
    for (std::size_t i = 0; i < tids->size() && i < most_threads; ++i) {
        const std::string status = proc_text(fmt::format("{}/task/{}/status", process, (*tids)[i]));
        if (!status.empty() && !in_mask(status, "SigBlk:", signal))
            return false;
    }
    return true;
}

} // namespace

// What the pre-check looked at, and what keeps the signal from being sent.
struct Dumper::Findings {
    std::vector<std::string> seen;
    std::string refused;
    std::uint64_t core_limit = 0;
};

Dumper::Dumper(capture::OsRoots os, rules::Config::Safety safety, std::int32_t *allowance, std::string state)
    : os_(std::move(os)), safety_(std::move(safety)), state_(std::move(state)),
      hour_(safety_.allow_dump ? safety_.dumps_per_hour : 0, allowance) {}

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
    const std::string status = proc_text(fmt::format("{}/{}/status", os_.proc, process.pid));
    std::string_view value;
    if (!status.empty() && !capture::line_value(status, "VmSize:", value))
        return "kernel threads and processes without memory are never signalled";
    std::vector<std::string> names = rules::units_of_cgroup(process.cgroup);
    names.insert(names.end(), {process.comm, process.exe, rules::path_of_program(process.exe), process.unit});
    for (const std::string &name : names)
        for (const std::string &pattern : safety_.never)
            if (!name.empty() && rules::glob_matches(pattern, name))
                return fmt::format("[safety] never has {}, which matches {}", rules::quote(pattern),
                                   rules::quote(name));
    return {};
}

// Why the incident that tells of the dump could not be written; "" it could.
std::string Dumper::no_room() const {
    struct statvfs space {};
    if (state_.empty() || ::statvfs(state_.c_str(), &space) != 0)
        return {};
    const std::uint64_t free = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    if (free >= incident_room)
        return {};
    return fmt::format("no room for its incident: {} KiB are free in {}, and one may take {} KiB", free >> 10, state_,
                       incident_room >> 10);
}

Dumper::Findings Dumper::examine(std::uint32_t pid, int signal, std::uint32_t dumpable) const {
    Findings found;
    const std::string directory = fmt::format("{}/{}", os_.proc, pid);
    const std::string status = proc_text(directory + "/status"), limits = proc_text(directory + "/limits");
    const std::string name = capture::signal_name(signal);
    if (in_mask(status, "SigIgn:", signal))
        found.refused = fmt::format("the process ignores {}: it would not dump", name);
    else if (in_mask(status, "SigCgt:", signal))
        found.refused = fmt::format("the process handles {} itself: whether it would dump is its own affair", name);
    found.seen.push_back(
        fmt::format("{} is {}", name, found.refused.empty() ? "at its default action" : "not at its default action"));
    // As where a daemon that was killed had sent one: a second would end nothing, and cost another of the hour.
    if (number_of(status, "CoreDumping:"))
        found.refused = "it is dumping core already";
    else if (found.refused.empty() && in_mask(status, "ShdPnd:", signal))
        found.refused = fmt::format("{} waits to be taken by it already", name);
    if (found.refused.empty() && is_init_of_a_namespace(status))
        found.refused = fmt::format("it is the init of a pid namespace: the kernel drops {} to it", name);
    if (found.refused.empty() && every_thread_blocks(directory, signal))
        found.refused = fmt::format("every thread of it blocks {}: it would stay pending", name);
    if (in_mask(status, "SigBlk:", signal))
        found.seen.push_back(fmt::format("the main thread blocks {}: another one takes it, or it stays pending", name));

    if (found.refused.empty())
        found.refused = taken_otherwise(os_, pid, status, signal);

    capture::CorePrecheck check;
    check.signal = signal;
    check.rlimit_core = found.core_limit = core_limit(limits);
    check.dumpable = dumpable;
    check.pid = pid;
    check.core_pattern = proc_text(os_.proc + "/sys/kernel/core_pattern");
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
    if (found.refused.empty())
        found.refused = no_room();
    return found;
}

// As /proc has it now.
Result<rules::ProcessFacts> Dumper::read(const capture::ProcessRef &process, const capture::Program &program) const {
    const auto live = capture::identify(os_, process.pid);
    if (!live)
        return fail("the process is gone");
    if (live->start_ticks != capture::start_ticks_of(process.start))
        return fail("the process is gone, its pid is another's now");
    if (!program.may_be(live->program))
        return fail(another_program);
    if (live->exe.empty())
        return fail("kernel threads and processes without an executable are never signalled");
    rules::ProcessFacts facts;
    facts.pid = process.pid;
    facts.start_boot_ns = process.start.ns;
    facts.comm = live->comm;
    facts.exe = live->exe;
    facts.cgroup = live->cgroup;
    facts.unit = live->unit;
    facts.uid = live->uid;
    facts.real_uid = live->real_uid;
    return facts;
}

capture::DumpRecord Dumper::dump(const rules::Dump &wanted, const rules::ProcessFacts &process,
                                 const capture::Program &program, std::uint32_t dumpable, std::uint64_t now_ns,
                                 const Objection &objection) {
    capture::DumpRecord record{.asked = true, .dry_run = wanted.dry_run, .signal = wanted.signal};
    record.refused = forbidden(process);
    if (record.refused.empty())
        record.refused = hour_.spent(rules::user_of(process), now_ns);
    if (!record.refused.empty())
        return record;
    // The descriptor first, all that is read afterwards is of the process with its start time: from then on it is that
    // process, or none.
    const UniqueFd process_fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (!process_fd) {
        record.refused = Error::system("the process is gone").what;
        return record;
    }
    const capture::ProcessRef target{process.pid, {process.start_boot_ns}};
    const auto now = read(target, program);
    record.refused = now ? forbidden(*now) : now.error().what;
    if (record.refused.empty() && objection)
        record.refused = objection(*now);
    if (!record.refused.empty())
        return record;
    Findings found = examine(process.pid, wanted.signal, dumpable);
    record.findings = std::move(found.seen);
    record.refused = std::move(found.refused);
    if (record.refused.empty() && wanted.dry_run)
        record.refused = "dry_run: it would have been sent";
    if (record.refused.empty())
        if (auto taken = hour_.take(rules::user_of(*now), now_ns); !taken)
            record.refused = std::move(taken.error().what);
    if (!record.refused.empty())
        return record;
    // Looking at all that has taken its time.
    if (!program.may_be(capture::program_of(os_, target))) {
        record.refused = another_program;
        hour_.give_back(now_ns);
        return record;
    }
    if (::syscall(SYS_pidfd_send_signal, process_fd.get(), wanted.signal, nullptr, 0) != 0) {
        record.refused = Error::system("sending the signal").what;
        hour_.give_back(now_ns);
        return record;
    }
    record.sent = true;
    return record;
}

Dumper::Look Dumper::look(const capture::ProcessRef &process, int signal) const {
    Look look{};
    auto now = read(process, {});
    look.objection = now ? forbidden(*now) : now.error().what;
    if (!look.objection.empty())
        return look;
    constexpr std::uint32_t dumpable = 1; // SUID_DUMP_USER: the kernel side looks itself
    const Findings found = examine(process.pid, signal, dumpable);
    look.now = std::move(*now);
    look.objection = found.refused;
    look.core_limit = found.core_limit;
    return look;
}

Dumper::Host Dumper::host() const {
    Host host;
    capture::CorePrecheck check;
    check.core_pattern = proc_text(os_.proc + "/sys/kernel/core_pattern");
    check.listener = capture::coredump_socket_listens(os_);
    const std::string no_core = capture::no_core_reason(check);
    host.settings = fmt::format("{}\n{}", check.core_pattern, no_core);
    struct statvfs space {};
    if (::statvfs(os_.coredump.c_str(), &space) == 0)
        host.space = static_cast<std::uint64_t>(space.f_bavail) * space.f_frsize;
    host.possible = safety_.allow_dump && no_core.empty() && no_room().empty();
    return host;
}

} // namespace incident::daemon
