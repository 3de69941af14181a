// What a check of `incidentctl doctor` is, and what it finds.
#pragma once

#include <string>
#include <vector>

namespace incident::postmortem::doctor {

// Note: worth knowing, but nothing to repair. Unknown: the check could not see it, so it does not count as Ok.
enum class Grade { Ok, Note, Unknown, Warn, Bad };

struct Finding {
    Grade grade = Grade::Ok;
    std::string fact; // may hold hostile bytes, like the other texts
    std::string why;  // what it means for incidents; "" if the fact already says it
    std::string fix;  // the commands that repair it, one on each line; "" none
};

using Findings = std::vector<Finding>;

class Host;

struct Check {
    const char *group;
    const char *name;
    Findings (*look)(const Host &);
};

// In the order of display; the checks of a group follow each other.
const std::vector<Check> &all_checks();

inline Finding ok(std::string fact) {
    return {Grade::Ok, std::move(fact), {}, {}};
}
// What was found, or this one if that is nothing.
inline Findings or_else(Findings findings, Finding otherwise) {
    if (findings.empty())
        findings.push_back(std::move(otherwise));
    return findings;
}
inline Finding note(std::string fact, std::string why) {
    return {Grade::Note, std::move(fact), std::move(why), {}};
}
inline Finding unknown(std::string fact, std::string fix = {}) {
    return {Grade::Unknown, std::move(fact), {}, std::move(fix)};
}
inline Finding warn(std::string fact, std::string why, std::string fix) {
    return {Grade::Warn, std::move(fact), std::move(why), std::move(fix)};
}
inline Finding bad(std::string fact, std::string why, std::string fix) {
    return {Grade::Bad, std::move(fact), std::move(why), std::move(fix)};
}

} // namespace incident::postmortem::doctor
