// Checks the running watched processes for settings of their own that prevent a core.
#include "capture/core/core_link.h"
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/doctor/words.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <map>

namespace incident::postmortem::doctor {

namespace {

// For a process of a unit: from its next start on.  The others, and now: their limit as they run.
std::string lift_limit(const Process &process) {
    std::string now = fmt::format("prlimit --pid {} --core=unlimited", process.facts.pid);
    if (!process.facts.unit.ends_with(".service"))
        return now;
    const std::string directory = shell_word(fmt::format("/etc/systemd/system/{}.d", process.facts.unit));
    return fmt::format("mkdir -p {0} && printf '[Service]\\nLimitCORE=infinity\\n' > {0}/50-core.conf && "
                       "systemctl daemon-reload\n{1}",
                       directory, now);
}

struct Blocked {
    const Process *first = nullptr;
    std::size_t processes = 0;
    std::string reason;
};

// One finding for each program or unit some process of which gets no core.
Findings blocked(const Host &host, const std::function<std::string(const Process &)> &reason_of,
                 const std::function<std::string(const Process &)> &fix, const std::string &why) {
    std::map<std::string, Blocked> by_program;
    for (const Process &process : host.processes()) {
        const std::string reason = reason_of(process);
        if (reason.empty())
            continue;
        Blocked &entry = by_program[process.facts.unit + "\n" + process.facts.exe];
        if (!entry.first) {
            entry.first = &process;
            entry.reason = reason;
        }
        ++entry.processes;
    }
    Findings findings;
    for (const auto &[unused, entry] : by_program) {
        const auto &facts = entry.first->facts;
        const std::string more = entry.processes > 1 ? fmt::format(" and {} more", entry.processes - 1) : std::string();
        findings.push_back(bad(fmt::format("{}[{}]{}{}: {}", facts.comm, facts.pid, more,
                                           facts.unit.empty() ? "" : " of " + facts.unit, entry.reason),
                               why, fix(*entry.first)));
    }
    return findings;
}

std::string none_seen(const Host &host) {
    return host.processes().empty() ? "no watched process runs" : "";
}

} // namespace

Findings check_rlimit_core(const Host &host) {
    const auto pattern = host.read("/proc/sys/kernel/core_pattern");
    if (!pattern)
        return {unknown(pattern.error().what)};
    if (const std::string none = none_seen(host); !none.empty())
        return {unknown(none)};
    // The handler's own faults are check_core_pattern's to tell: what counts here is what the limit adds.
    const auto reason = [&](std::uint64_t limit) {
        return capture::no_core_reason({.rlimit_core = limit, .core_pattern = *pattern + "\n"});
    };
    const std::string regardless = reason(~0ull);
    Findings findings = blocked(
        host,
        [&](const Process &process) {
            const std::string found = process.rlimit_core ? reason(*process.rlimit_core) : "";
            return found == regardless ? "" : found;
        },
        lift_limit, "when it crashes there is mini.core, and no core");
    const auto unseen =
        std::ranges::count_if(host.processes(), [](const Process &process) { return !process.rlimit_core; });
    if (unseen > 0)
        findings.push_back(unknown(fmt::format("the limits of {} cannot be read",
                                               counted(static_cast<std::uint64_t>(unseen), "process", "processes")),
                                   host.as_root()));
    return or_else(std::move(findings),
                   ok(fmt::format("none of {} is kept from dumping by its limit",
                                  counted(host.processes().size(), "watched process", "watched processes"))));
}

// A process that changed its user, or runs a program it may not read, is dumpable as fs.suid_dumpable says
// (proc(5)); the kernel gives its /proc/PID to root then, which is how it is told.
Findings check_dumpable(const Host &host) {
    const auto mode = host.read("/proc/sys/fs/suid_dumpable");
    if (!mode)
        return {unknown(mode.error().what)};
    if (*mode != "0")
        return {ok("fs.suid_dumpable is " + *mode)};
    const std::string fix = "sysctl -w fs.suid_dumpable=2";
    Findings findings = blocked(
        host, [](const Process &process) { return process.hidden ? "it is not dumpable, fs.suid_dumpable is 0" : ""; },
        [&](const Process &) { return std::string(fix); }, "when it crashes there is mini.core, and no core");
    return or_else(std::move(findings), warn("fs.suid_dumpable is 0",
                                             "services that start as root and change their user dump no core", fix));
}

// Bit 0: anonymous private memory (core(5)): without it neither stacks nor heap are in the core.
Findings check_core_filter(const Host &host) {
    if (host.processes().empty())
        return {};
    Findings findings = blocked(
        host,
        [](const Process &process) {
            return process.core_filter && !(*process.core_filter & 1)
                       ? fmt::format("coredump_filter is {:#x}", *process.core_filter)
                       : "";
        },
        [](const Process &process) { return fmt::format("echo 0x33 > /proc/{}/coredump_filter", process.facts.pid); },
        "its core lacks stacks and heap");
    const auto unseen =
        std::ranges::count_if(host.processes(), [](const Process &process) { return !process.core_filter; });
    if (unseen > 0)
        findings.push_back(unknown(fmt::format("that of {} cannot be read",
                                               counted(static_cast<std::uint64_t>(unseen), "process", "processes")),
                                   host.as_root()));
    return or_else(std::move(findings), ok("all keep stacks and heap"));
}

} // namespace incident::postmortem::doctor
