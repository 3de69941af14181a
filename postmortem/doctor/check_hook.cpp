// Checks whether incidents are handed on as [hook] says.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <unistd.h>

namespace incident::postmortem::doctor {

Findings check_hook(const Host &host) {
    const std::string &unit = host.config().hook.unit;
    if (unit.empty())
        return {};
    constexpr std::array directories{"/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system",
                                     "/usr/lib/systemd/system", "/lib/systemd/system"};
    const auto is_there = [&](const char *directory) { return host.exists(std::string(directory) + "/" + unit); };
    Findings findings;
    if (std::ranges::none_of(directories, is_there))
        findings.push_back(bad(fmt::format("[hook] unit = \"{}\": there is no such unit", unit),
                               "no incident is handed on", "systemctl edit --force --full " + shell_word(unit)));
    // The shipped one runs this, and does nothing without (ConditionFileIsExecutable=).
    const std::string program = "/etc/incidentd/on-incident";
    if (unit == "incident-hook@.service" && ::access(host.path(program).c_str(), X_OK) != 0)
        findings.push_back(host.exists(program)
                               ? bad(program + " is not executable", "no incident is handed on", "chmod +x " + program)
                               : bad(program + " is not there", "no incident is handed on",
                                     "write it: a program that finds INCIDENT_ID and INCIDENT_BUNDLE "
                                     "in its environment"));
    if (host.status()) {
        const JsonView hook = JsonView(*host.status())["hook"];
        if (!hook.is_object())
            findings.push_back(
                warn("incidentd has not loaded [hook]", "no incident is handed on", "systemctl restart incidentd"));
        if (const std::uint64_t failed = hook["failed"].count(); failed > 0)
            findings.push_back(warn(fmt::format("{} could not be started {} times", unit, failed),
                                    "those incidents were not handed on", "journalctl -u incidentd -p warning"));
        if (const std::uint64_t beyond = hook["suppressed"].count(); beyond > 0)
            findings.push_back(
                warn(fmt::format("{} incidents were beyond [hook] per_hour", beyond), "they were not handed on",
                     "in /etc/incidentd/incidentd.toml: a larger per_hour, then: systemctl restart incidentd"));
    }
    return or_else(std::move(findings), ok(unit));
}

} // namespace incident::postmortem::doctor
