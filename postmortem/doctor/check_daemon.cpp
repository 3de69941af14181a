// Checks whether incidentd runs, will run after the next boot, and does its work.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/doctor/words.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

namespace incident::postmortem::doctor {

namespace {

// "2026-11-21T15:04:05Z" as journalctl takes it.
std::string since(std::string_view iso) {
    std::string text(iso.substr(0, 19));
    std::ranges::replace(text, 'T', ' ');
    return text;
}

} // namespace

Findings check_daemon(const Host &host) {
    if (!host.status()) {
        const Error &error = host.status().error();
        // Its socket is in a directory of root's alone.
        if (error.code == EACCES)
            return {unknown("whether incidentd runs cannot be seen: " + error.what, host.as_root())};
        return {bad(error.what, "nothing is recorded, there are no incidents",
                    "systemctl enable --now incidentd   # then: systemctl status incidentd")};
    }
    const JsonView status(*host.status());
    const std::string version(status["version"].text());
    const std::string fact = fmt::format("incidentd {}, pid {}", version, status["pid"].count());
    if (version != INCIDENTD_VERSION)
        return {warn(fmt::format("{}; this is incidentctl " INCIDENTD_VERSION, fact),
                     "it was upgraded and still runs the old program", "systemctl restart incidentd")};
    if (const JsonView gap = status["gap"]; gap.is_object() && !gap["stopped"].flag())
        return {
            warn(fmt::format("{}; nothing was recorded from {} to {}", fact, gap["from"].shown(), gap["until"].shown()),
                 fmt::format("the one before it (pid {}) was killed, or the machine went down", gap["pid"].shown()),
                 fmt::format("journalctl --since '{} UTC'   # what happened then", since(gap["from"].text())))};
    return {ok(fact)};
}

Findings check_enabled(const Host &host) {
    if (!host.booted_with_systemd())
        return {};
    // The place of the link for WantedBy=multi-user.target (systemctl(1), "enable").
    for (const char *directory : {"/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"})
        if (host.exists(std::string(directory) + "/multi-user.target.wants/incidentd.service"))
            return {ok("incidentd.service is enabled")};
    return {warn("incidentd.service is not enabled", "after the next boot nothing is recorded",
                 "systemctl enable incidentd")};
}

Findings check_failed_units(const Host &host) {
    if (!host.booted_with_systemd())
        return {unknown("systemd does not run this host: no unit's state can be asked for")};
    const auto failed = host.failed_units();
    if (!failed)
        return {unknown(failed.error().what, host.as_root())};
    Findings findings;
    for (const std::string &unit : *failed) {
        const bool ours =
            unit == "incidentd.service" || unit.starts_with("systemd-journald") || unit == "systemd-coredump.socket";
        findings.push_back(
            {ours ? Grade::Bad : Grade::Warn, unit + " has failed", ours ? "incidents depend on it" : "",
             fmt::format("systemctl status {0}   # then: systemctl reset-failed {0}", shell_word(unit))});
    }
    return or_else(std::move(findings), ok("none of incidentd's, journald's and systemd-coredump's has failed"));
}

Findings check_failed_incidents(const Host &host) {
    if (!host.status())
        return {};
    const JsonView status(*host.status());
    const std::uint64_t failed = status["incidents"]["failed"].count();
    const std::uint64_t unexplained = status["analyses"]["failed"].count();
    Findings findings;
    if (failed > 0)
        findings.push_back(warn(counted(failed, "incident", "incidents") + " could not be written since it started",
                                "they are lost", "journalctl -u incidentd -p warning"));
    if (unexplained > 0)
        findings.push_back(warn(counted(unexplained, "incident", "incidents") + " could not be explained",
                                "they have no stacks and no verdict until somebody looks", "incidentctl analyse ID"));
    return or_else(std::move(findings),
                   ok(fmt::format("{} written, none failed", status["incidents"]["committed"].count())));
}

} // namespace incident::postmortem::doctor
