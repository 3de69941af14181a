// Checks whether the programs that the rules name are the ones that run.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"
#include "postmortem/doctor/words.h"
#include "rules/model/match.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>

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
    std::map<std::string, std::vector<const Process *>> by_file;
    for (const Process &process : host.processes())
        if (process.replaced)
            by_file[process.facts.exe].push_back(&process);
        else if (!process.replaced_library.empty())
            by_file[process.replaced_library].push_back(&process);
    Findings findings;
    for (const auto &[file, processes] : by_file) {
        std::vector<std::string> who;
        std::set<std::string> restarts;
        for (const Process *process : processes) {
            const auto &facts = process->facts;
            who.push_back(fmt::format("{}[{}]", facts.comm, facts.pid));
            restarts.insert(facts.unit.ends_with(".service") ? "systemctl restart " + shell_word(facts.unit)
                                                             : fmt::format("start process {} anew", facts.pid));
        }
        findings.push_back(warn(fmt::format("{} was removed or replaced while {} run it", file, some_of(who)),
                                "of a crash no names and lines are found in it",
                                some_of({restarts.begin(), restarts.end()}, "\n")));
    }
    if (findings.empty() && !host.processes().empty())
        findings.push_back(ok("every watched process runs what is installed"));
    return findings;
}

} // namespace incident::postmortem::doctor
