// Checks whether the running daemon had to leave something out for lack of room.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/doctor/words.h"

#include <fmt/format.h>

namespace incident::postmortem::doctor {

namespace {

std::string raise(std::string_view key, std::uint64_t now) {
    return fmt::format("in [record] of /etc/incidentd/incidentd.toml: {} = {}, then: systemctl restart incidentd", key,
                       now * 2);
}

} // namespace

Findings check_room(const Host &host) {
    if (!host.status())
        return {};
    const JsonView recorder = JsonView(*host.status())["recorder"];
    Findings findings;
    std::string fact;
    for (const char *what : {"threads", "processes"}) {
        const std::uint64_t used = recorder[std::string(what) + "_used"].count();
        const std::uint64_t most = recorder[std::string(what) + "_max"].count();
        const std::string room = fmt::format("{} of {} {}", used, most, what);
        if (most > 0 && used > most / 10 * 9)
            findings.push_back(
                warn(room + " are recorded", "those beyond are not, and are counted as lost", raise(what, most)));
        fact += (fact.empty() ? "" : ", ") + room;
    }
    return or_else(std::move(findings), ok(fact + " are recorded"));
}

Findings check_losses(const Host &host) {
    if (!host.status())
        return {};
    const JsonView status(*host.status());
    Findings findings;
    status["losses"].each([&](JsonView loss) {
        if (loss["count"].count() == 0 || loss["where"].text() == "incidents") // of these check_failed_incidents tells
            return;
        const std::string where = loss["where"].shown();
        const JsonView recorder = status["recorder"];
        const std::string fix =
            where.find("[record] threads") != where.npos     ? raise("threads", recorder["threads_max"].count())
            : where.find("[record] processes") != where.npos ? raise("processes", recorder["processes_max"].count())
            : where.starts_with("ring buffer")
                ? "in [record] of /etc/incidentd/incidentd.toml: a larger ring_buffer, then: "
                  "systemctl restart incidentd"
                : "incidentctl status";
        findings.push_back(warn(fmt::format("{} {}: {}", loss["count"].count(), where, loss["reason"].shown()),
                                "it is missing in incidents since incidentd started", fix));
    });
    return or_else(std::move(findings), ok("none since incidentd started"));
}

Findings check_probe_states(const Host &host) {
    if (!host.status())
        return {};
    Findings findings;
    std::size_t active = 0;
    std::uint64_t missed = 0;
    JsonView(*host.status())["probes"].each([&](JsonView probe) {
        const std::string state(probe["state"].text());
        missed += probe["missed"].count();
        if (state == "active")
            ++active;
        else
            findings.push_back(warn(fmt::format("{} is {}: {}", probe["name"].shown(), state, probe["reason"].shown()),
                                    "", "incidentctl status"));
    });
    if (missed > 0)
        findings.push_back(
            note(fmt::format("{} runs of programs were missed", missed),
                 "the kernel skips one while another runs on that CPU: what it would have recorded is lost"));
    return or_else(std::move(findings), ok(fmt::format("{} attached", counted(active, "program is", "programs are"))));
}

} // namespace incident::postmortem::doctor
