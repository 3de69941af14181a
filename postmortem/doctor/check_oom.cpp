// Checks whether an OOM kill gets an incident: the daemon must survive to write it.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"

#include <charconv>
#include <fmt/format.h>

namespace incident::postmortem::doctor {

Findings check_panic_on_oom(const Host &host) {
    const auto value = host.read("/proc/sys/vm/panic_on_oom");
    if (!value)
        return {unknown(value.error().what)};
    if (*value != "0")
        return {warn("vm.panic_on_oom is " + *value,
                     "out of memory the host panics: of what led to it only what is on the disk is left",
                     "sysctl -w vm.panic_on_oom=0")};
    return {ok("the host goes on after an OOM kill")};
}

Findings check_oom_score(const Host &host) {
    if (!host.status())
        return {};
    const std::uint64_t pid = JsonView(*host.status())["pid"].count();
    const auto text = host.read(fmt::format("/proc/{}/oom_score_adj", pid));
    if (!text)
        return {unknown(text.error().what)};
    int score = 0;
    if (std::from_chars(text->data(), text->data() + text->size(), score).ec != std::errc())
        return {unknown("oom_score_adj of incidentd is " + *text)};
    if (score >= 0)
        return {warn(fmt::format("oom_score_adj of incidentd is {}", score),
                     "out of memory the kernel may choose incidentd itself",
                     fmt::format("choom -n -900 -p {}   # incidentd.service does it by OOMScoreAdjust=", pid))};
    return {ok(fmt::format("oom_score_adj of incidentd is {}", score))};
}

} // namespace incident::postmortem::doctor
