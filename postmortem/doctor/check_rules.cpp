// Checks whether the rules have errors, and whether they can do what they say.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/doctor/words.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::postmortem::doctor {

Findings check_rule_files(const Host &host) {
    Findings findings;
    for (const std::string &error : host.file_errors())
        findings.push_back(bad(error, "what it says is not in force", "incidentd --check"));
    for (const std::string &warning : host.file_warnings())
        findings.push_back(warn(warning, "", "incidentd --check"));
    for (const std::string &file : host.unseen_files())
        findings.push_back(unknown(file, host.as_root()));
    const auto enabled = std::ranges::count_if(host.rules(), &rules::Rule::enabled);
    const std::size_t running = host.status() ? JsonView(*host.status())["rules"].size() : 0;
    if (enabled == 0 && host.unseen_files().empty())
        findings.push_back(bad(fmt::format("{} with no enabled rule", counted(host.rule_files(), "file", "files")),
                               running ? fmt::format("incidentd still has {}, until it is told to reload or restarts",
                                                     counted(running, "rule", "rules"))
                                       : std::string("nothing makes an incident"),
                               "cp -n /usr/share/incidentd/rules.d/crash.toml /etc/incidentd/rules.d/ && "
                               "systemctl reload incidentd"));
    else if (findings.empty())
        findings.push_back(ok(fmt::format("{}, {} enabled", counted(host.rules().size(), "rule", "rules"), enabled)));
    return findings;
}

// An edit that nobody has had the daemon read.
Findings check_rules_loaded(const Host &host) {
    if (!host.status())
        return {};
    const JsonView status(*host.status());
    Findings findings;
    std::vector<std::string> loaded, missing;
    status["rules"].each([&](JsonView rule) { loaded.emplace_back(rule["name"].text()); });
    status["rule_errors"].each([&](JsonView error) {
        const std::string_view text = error.text();
        findings.push_back(
            bad(std::string(text.substr(0, text.find('\n'))), "incidentd has not loaded it", "incidentd --check"));
    });
    for (const rules::Rule &rule : host.rules())
        if (rule.enabled && std::ranges::find(loaded, rule.name) == loaded.end())
            missing.push_back(rule.name);
    if (!missing.empty())
        findings.push_back(warn("incidentd has not loaded " + some_of(missing), "the files were changed since",
                                "systemctl reload incidentd"));
    return or_else(std::move(findings), ok("incidentd has loaded them"));
}

Findings check_rule_states(const Host &host) {
    if (!host.status())
        return {unknown("only a running incidentd can say which of them work")};
    Findings findings;
    std::size_t active = 0;
    JsonView(*host.status())["rules"].each([&](JsonView rule) {
        const std::string state(rule["state"].text());
        const std::string fact =
            fmt::format("{} is {}: {}", rule["name"].shown(), state, std::string(rule["reason"].text()));
        const std::string place = fmt::format("edit {}, then: systemctl reload incidentd", rule["source"].shown());
        active += state == "active";
        if (state == "unavailable")
            findings.push_back(bad(fact, "it does nothing", place));
        else if (state == "degraded")
            findings.push_back(warn(fact, "", place));
    });
    return or_else(std::move(findings), ok(fmt::format("{} active", counted(active, "rule is", "rules are"))));
}

} // namespace incident::postmortem::doctor
