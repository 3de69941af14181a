// Checks whether the journal takes the entries that join an incident with its core, and keeps them (journald.conf(5)).
#include "capture/os/number.h"
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"

#include <fmt/format.h>

namespace incident::postmortem::doctor {

namespace {

std::string journald_drop_in(std::string_view setting) {
    return fmt::format("mkdir -p /etc/systemd/journald.conf.d && printf '[Journal]\\n{}\\n' "
                       "> /etc/systemd/journald.conf.d/60-local.conf && "
                       "systemctl restart systemd-journald",
                       setting);
}

} // namespace

Findings check_journald(const Host &host) {
    const auto sockets = host.read("/proc/1/net/unix"); // the host's, whatever network namespace is ours
    if (!sockets)
        return {unknown(sockets.error().what, host.as_root())};
    if (sockets->find(" /run/systemd/journal/socket") == std::string::npos)
        return {bad("nobody reads /run/systemd/journal/socket",
                    "systemd-coredump's entries are lost, and no core is joined to its incident",
                    "systemctl start systemd-journald.service")};
    return {ok("it reads /run/systemd/journal/socket")};
}

Findings check_journal_storage(const Host &host) {
    Findings findings;
    const SystemdConfig &config = host.journald_conf();
    for (const std::string &file : config.unreadable)
        findings.push_back(unknown(file + " cannot be read", host.as_root()));
    const std::string storage = config.text("Journal.Storage", "auto");
    const std::string where =
        config.find("Journal.Storage") ? fmt::format(" ({})", config.find("Journal.Storage")->file) : " (the default)";
    const char *const lost = "with the next boot the entries of all crashes are gone, and coredumpctl shows none";
    if (storage == "none")
        findings.push_back(bad("Storage=none" + where, "nothing is journalled: no core is joined to its incident",
                               journald_drop_in("Storage=persistent")));
    else if (storage == "volatile")
        findings.push_back(warn("Storage=volatile" + where, lost, journald_drop_in("Storage=persistent")));
    else if (storage == "auto" && !host.exists("/var/log/journal"))
        findings.push_back(warn("Storage=auto" + where + " and no /var/log/journal: the journal is in memory", lost,
                                "mkdir -p /var/log/journal && systemd-tmpfiles --create --prefix /var/log/journal && "
                                "journalctl --flush"));
    else
        findings.push_back(ok("kept in /var/log/journal"));
    return findings;
}

// The limit is a service's own; of incidentd it has to let through an entry an incident.  systemd-coredump is
// a new instance for each crash.
Findings check_journal_rate(const Host &host) {
    constexpr std::uint64_t enough = 500; // [storm] and limits let through a few dozen in half a minute
    const SystemdConfig &config = host.journald_conf();
    const std::string interval = config.text("Journal.RateLimitIntervalSec", "30s");
    const std::string burst = config.text("Journal.RateLimitBurst", "10000");
    const auto count = capture::whole_number<std::uint64_t>(burst);
    const bool off = (count && *count == 0) || systemd_span_seconds(interval) == 0;
    if (off)
        return {ok("off")};
    if (!count)
        return {unknown(fmt::format("RateLimitBurst={} is no number", burst))};
    const std::string fact = fmt::format("{} messages of a service in {}", *count, interval);
    if (*count < enough)
        return {warn(fact, "in a storm of crashes incidents' entries are dropped",
                     journald_drop_in("RateLimitIntervalSec=30s\\nRateLimitBurst=10000"))};
    return {ok(fact)};
}

} // namespace incident::postmortem::doctor
