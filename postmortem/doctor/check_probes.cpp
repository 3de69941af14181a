// Checks the kinds of probes that some kinds of rules need. If one is missing, that is bad for a host with such a rule.
// For other hosts it is a warning, because such a rule may come later.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"

#include <fmt/format.h>

namespace incident::postmortem::doctor {

namespace {

Finding lacks(const Host &host, const char *kind, std::string fact, std::string fix) {
    const std::string why = fmt::format("rules with on = \"{}\" do not work", kind);
    if (host.a_rule_wants(kind))
        return bad(std::move(fact), why + ", and there are such", std::move(fix));
    return warn(std::move(fact), why, std::move(fix));
}

// The kernel offers probes as event sources (perf_event_open(2), "kprobe and uprobe").
std::string other_kernel(const Host &host) {
    return host.install("linux-image-amd64", "kernel") + " && systemctl reboot";
}

} // namespace

Findings check_uprobes(const Host &host) {
    if (!host.exists("/sys/bus/event_source/devices/uprobe/type"))
        return {lacks(host, "latency", "the kernel has no uprobes (CONFIG_UPROBE_EVENTS)", other_kernel(host))};
    return {ok("to be had")};
}

// Only syncs of ZFS pools are watched by them, and only where the module has no BTF (daemon/watch/txg_probes.cpp).
Findings check_kprobes(const Host &host) {
    const bool compiled = host.exists("/sys/bus/event_source/devices/kprobe/type");
    // Needs debugfs and root; where it cannot be read nothing speaks against them.
    const auto enabled = host.read("/sys/kernel/debug/kprobes/enabled");
    if (compiled && !(enabled && *enabled == "0"))
        return {ok("to be had")};
    const std::string fact = compiled ? "kprobes are switched off" : "the kernel has no kprobes (CONFIG_KPROBE_EVENTS)";
    const std::string why = "long syncs of ZFS pools are seen by fentry, or in the kstat files when they are over";
    if (host.a_rule_wants("txg_sync") && host.exists("/proc/spl/kstat/zfs"))
        return {warn(fact, why, compiled ? "echo 1 > /sys/kernel/debug/kprobes/enabled" : other_kernel(host))};
    return {note(fact, why)};
}

Findings check_tracefs(const Host &host) {
    for (const char *place : {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}) {
        const auto events = host.read(std::string(place) + "/events/enable");
        if (events)
            return {ok(place)};
        if (events.error().code == EACCES)
            return {unknown(events.error().what, host.as_root())};
    }
    return {lacks(host, "tracepoint", "tracefs is not mounted", "mount -t tracefs tracefs /sys/kernel/tracing")};
}

} // namespace incident::postmortem::doctor
