// Whether what the rules name is what runs.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/doctor/words.h"
#include "rules/match.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace incident::postmortem::doctor {

namespace {

std::string match_text(const rules::Match &match) {
    std::string text;
    const auto add = [&](const char *key, const auto &values) {
        if (!values.empty())
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", key, rules::shown_list(values));
    };
    add("unit", match.unit);
    add("exe", match.exe);
    add("comm", match.comm);
    add("cgroup", match.cgroup);
    add("uid", match.uid);
    return text;
}

} // namespace

Findings check_matches(const Host &host) {
    Findings findings;
    if (host.unseen_processes() > 0)
        findings.push_back(unknown(
            fmt::format("the programs of {} cannot be seen", counted(host.unseen_processes(), "process", "processes")),
            host.as_root()));
    for (const rules::Rule &rule : host.rules()) {
        if (!rule.enabled || rule.match.everything())
            continue;
        const bool runs = std::ranges::any_of(
            host.processes(), [&](const Process &process) { return rules::matches(rule.match, process.facts); });
        // To others than root most programs are hidden: one of them may be meant.
        if (!runs && (host.root_user || host.unseen_processes() == 0 || rule.match.exe.empty()))
            findings.push_back(
                warn(fmt::format("no process runs that rule {} is about: {}", rule.name, match_text(rule.match)),
                     "a name that is mistyped never fires",
                     fmt::format("ps -eo pid,comm,exe,unit   # and edit {}:{}", rule.at.file, rule.at.line)));
    }
    const auto named = std::ranges::count_if(host.processes(), &Process::named);
    if (host.processes().empty() && findings.empty())
        findings.push_back(warn("no running process is watched", "nothing is recorded", "incidentd --check"));
    else if (!host.processes().empty())
        findings.push_back(ok(counted(host.processes().size(), "process is watched", "processes are watched") +
                              (named > 0 ? fmt::format(", {} of them named by a rule", named)
                                         : ", none of them named by a rule: some rule is about every process")));
    return findings;
}

// An upgrade without a restart: what runs is no longer what is on the disk, so its symbols, and those of
// the debug packages, are another build's.
Findings check_replaced(const Host &host) {
    std::map<std::string, std::vector<const Process *>> by_program;
    for (const Process &process : host.processes())
        if (process.replaced)
            by_program[process.facts.exe].push_back(&process);
    Findings findings;
    for (const auto &[exe, processes] : by_program) {
        const auto &facts = processes.front()->facts;
        const std::string restart = facts.unit.ends_with(".service") ? "systemctl restart " + shell_word(facts.unit)
                                                                     : fmt::format("start process {} anew", facts.pid);
        findings.push_back(warn(fmt::format("{} was removed or replaced while {} of it runs (pid {})", exe,
                                            counted(processes.size(), "process", "processes"), facts.pid),
                                "a crash of it is unwound without its file: no names, no lines", restart));
    }
    if (findings.empty() && !host.processes().empty())
        findings.push_back(ok("every watched process runs the program that is installed"));
    return findings;
}

} // namespace incident::postmortem::doctor
