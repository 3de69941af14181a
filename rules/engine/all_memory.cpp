#include "rules/engine/all_memory.h"

#include "rules/conditions/kinds.h"
#include "rules/engine/tally_memory.h"
#include "rules/model/match.h"

#include <algorithm>

namespace incident::rules {
namespace {

constexpr int most_candidates_tried = 64;

std::uint64_t apart(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : b - a;
}

} // namespace

void AllMemory::met(const Rule &rule, std::size_t condition, const Event &event, std::uint64_t value) {
    const auto within = static_cast<std::uint64_t>(rule.within.count());
    const TallyKey key(rule.conditions[condition].tally.by, event.process);
    KeyedMemory<Mark> &marks = marks_[condition];
    const Mark *before = marks.find(key.text());
    newly_met_ = before == nullptr || apart(before->t_ns, event.t_ns) > within;
    Mark &mark = marks.at(key.text(), key.user());
    if (event.t_ns >= mark.t_ns)
        mark = {event.t_ns, value};
    const auto useless = [&](const auto &old) { return old.t_ns + within + late_at_most_ns < event.t_ns; };
    marks.tidy(useless);
    if (of_host(rule.conditions[condition]))
        return;
    const TallyKey of_process(TallyBy::Process, event.process);
    Candidate &candidate = candidates_.at(of_process.text(), of_process.user());
    candidate.t_ns = std::max(candidate.t_ns, event.t_ns);
    if (candidate.process.comm.empty() || newly_met_)
        candidate.process = event.process;
    candidates_.tidy(useless);
}

const Mark *AllMemory::mark(const Rule &rule, std::size_t condition, const ProcessFacts &process) {
    return marks_[condition].find(TallyKey(rule.conditions[condition].tally.by, process).text());
}

std::optional<std::size_t> AllMemory::missing(const Rule &rule, const ProcessFacts &process) {
    std::uint64_t newest = 0;
    for (std::size_t i = 0; i < marks_.size(); ++i) {
        const Mark *known = mark(rule, i, process);
        if (known == nullptr)
            return i;
        newest = std::max(newest, known->t_ns);
    }
    for (std::size_t i = 0; i < marks_.size(); ++i)
        if (apart(newest, mark(rule, i, process)->t_ns) > static_cast<std::uint64_t>(rule.within.count()))
            return i;
    return std::nullopt;
}

std::optional<ProcessFacts> AllMemory::whole_for(const Rule &rule, std::size_t condition, const Event &event) {
    const bool anybody = rule.match.everything();
    if (!missing(rule, event.process) && (anybody || matches(rule.match, event.process)))
        return event.process;
    if (!newly_met_ || rule.conditions[condition].tally.by == TallyBy::Process)
        return std::nullopt;
    // Looking up marks changes their order, not that of the candidates.
    int tried = 0;
    std::optional<ProcessFacts> whole;
    candidates_.each([&](const std::string &, const Candidate &candidate) {
        if (++tried > most_candidates_tried)
            return false;
        if (!missing(rule, candidate.process))
            whole = candidate.process;
        return !whole;
    });
    return whole;
}

void AllMemory::clear(const Rule &rule, std::size_t condition, const ProcessFacts &process) {
    marks_[condition].erase(TallyKey(rule.conditions[condition].tally.by, process).text());
}

std::uint64_t AllMemory::forgotten() const {
    std::uint64_t sum = candidates_.forgotten();
    for (const auto &marks : marks_)
        sum += marks.forgotten();
    return sum;
}

} // namespace incident::rules
