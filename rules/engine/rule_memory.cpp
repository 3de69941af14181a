#include "rules/engine/rule_memory.h"

#include "rules/conditions/kinds.h"
#include "rules/engine/condition_match.h"
#include "rules/model/match.h"
#include "rules/model/units.h"
#include "rules/model/user.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {
namespace {

std::string limit_key(LimitBy by, const ProcessFacts &process) {
    switch (by) {
    case LimitBy::Rule:
        break;
    case LimitBy::Process: // the start time keeps a reused pid apart
        return fmt::format("{}@{}", process.pid, process.start_boot_ns);
    case LimitBy::Exe: // comm when the exe could not be read; a path begins with '/', so they never clash
        return process.exe.empty() ? "comm " + process.comm : process.exe;
    case LimitBy::Cgroup:
        return process.cgroup;
    }
    return {};
}

// "count: 3 of 10 within 30s", "stalled: 120ms of 900ms within 30s"
std::string still_missing(const Tally &tally, const TallyMemory::Answer &answer) {
    std::string out;
    if (tally.count > 1)
        out = fmt::format("count: {} of {}", answer.count, tally.count);
    if (tally.stalled.count() > 0)
        out +=
            fmt::format("{}stalled: {} of {}", out.empty() ? "" : ", ",
                        about_text(Nanoseconds(static_cast<std::int64_t>(answer.value))), duration_text(tally.stalled));
    return fmt::format("{} within {}", out, duration_text(tally.window));
}

// The newest `most_matches`, oldest first.
void order(std::vector<Matched> &matches) {
    std::stable_sort(matches.begin(), matches.end(),
                     [](const Matched &a, const Matched &b) { return a.t_ns < b.t_ns; });
    if (matches.size() > most_matches)
        matches.erase(matches.begin(), matches.end() - static_cast<std::ptrdiff_t>(most_matches));
}

} // namespace

RuleMemory::RuleMemory(const Rule &rule) : conditions_(rule.conditions.size()), all_(rule.conditions.size()) {}

RuleMemory::Step RuleMemory::step(const Rule &rule, std::size_t index, const Event &event, bool explain,
                                  std::string &why) {
    if (auto no = mismatch(rule, index, event, explain)) {
        why = std::move(*no);
        return Step::No;
    }
    // In `all` a condition by host is about the host, whomever the rule is about.
    const bool whole_host = rule.combine == Combine::All && of_host(rule.conditions[index]);
    if (!whole_host && !rule.match.everything()) {
        if (event.process.pid == 0) {
            if (explain)
                why = "match: this is of the host, not of a process";
            return Step::No;
        }
        if (!matches(rule.match, event.process)) {
            if (explain)
                why = mismatch(rule.match, event.process);
            return Step::No;
        }
    }
    if (std::holds_alternative<MemoryEvent>(event.what))
        return sample(rule, index, event, explain, why);
    return count(rule, index, event, explain, why);
}

RuleMemory::Step RuleMemory::sample(const Rule &rule, std::size_t index, const Event &event, bool explain,
                                    std::string &why) {
    const auto &condition = std::get<MemoryCondition>(rule.conditions[index].what);
    const std::uint64_t rss = std::get<MemoryEvent>(event.what).rss;
    const TallyKey process(TallyBy::Process, event.process);
    MemorySamples &samples = conditions_[index].samples;
    const auto answer =
        samples.add(condition, process, event.t_ns, rss, static_cast<std::uint64_t>(rule.within.count()));
    if (!(rule.combine == Combine::All ? answer.holds : answer.began)) {
        if (!explain)
            return Step::No;
        if (answer.holds)
            why = "memory: it matched already, and has not fallen below since";
        else if (condition.rss_above && rss <= *condition.rss_above)
            why = fmt::format("rss_above: {} KiB, not above {}", rss / 1024, size_text(*condition.rss_above));
        else
            why = fmt::format("growth: {} KiB within {}, less than {}", answer.grown / 1024,
                              duration_text(condition.within), size_text(condition.growth.value_or(0)));
        return Step::No;
    }
    const Step met = count(rule, index, event, explain, why);
    if (met == Step::Counted) // the next one needs as much growth again
        samples.restart(condition, process.text());
    return met;
}

RuleMemory::Step RuleMemory::count(const Rule &rule, std::size_t index, const Event &event, bool explain,
                                   std::string &why) {
    ++counters_.matched;
    const Tally &tally = rule.conditions[index].tally;
    if (tally.each())
        return Step::Met;
    const TallyKey key(tally.by, event.process);
    const auto answer = conditions_[index].tally.add(tally, key, event.t_ns, value_of(event.what),
                                                     static_cast<std::uint64_t>(rule.within.count()));
    if (answer.reached)
        return Step::Met;
    if (explain)
        why = still_missing(tally, answer);
    return Step::Counted;
}

Decision RuleMemory::decide(const Rule &rule, const Event &event, Answers answers) {
    const bool explain = answers == Answers::All;
    Decision decision{.rule = &rule};
    for (std::size_t i = 0; i < rule.conditions.size(); ++i) {
        if (rule.conditions[i].what.index() != event.what.index())
            continue;
        std::string why;
        const Step made = step(rule, i, event, explain, why);
        if (made == Step::No) {
            if (decision.outcome == Outcome::NoMatch && decision.why.empty())
                decision.why = std::move(why);
            continue;
        }
        if (decision.outcome == Outcome::Fire || decision.outcome == Outcome::Suppressed)
            continue; // one firing an event; this one only counted
        decision.condition = i;
        if (made == Step::Counted) {
            decision.outcome = Outcome::Counted;
            decision.why = std::move(why);
        } else if (rule.combine == Combine::All) {
            all_.met(rule, i, event, value_of(event.what));
            complete(rule, event, explain, decision);
        } else {
            decision.why.clear();
            collect(rule, i, event, event.process, decision);
            restart(rule, i, event.process);
            fire(rule, event, event.process, decision);
        }
    }
    return decision;
}

// A condition of an `all` rule is met: is the rule?
void RuleMemory::complete(const Rule &rule, const Event &event, bool explain, Decision &out) {
    auto process = all_.whole_for(rule, out.condition, event);
    if (!process) {
        out.outcome = Outcome::Counted;
        if (explain)
            if (const auto missing = all_.missing(rule, event.process))
                out.why = fmt::format("all: condition {} (\"{}\") is not met within {}", *missing + 1,
                                      rule.conditions[*missing].kind, duration_text(rule.within));
        return;
    }
    out.why.clear();
    for (std::size_t i = 0; i < rule.conditions.size(); ++i)
        collect(rule, i, event, *process, out);
    restart_all(rule, *process);
    fire(rule, event, *process, out);
    if (process->pid != event.process.pid || process->start_boot_ns != event.process.start_boot_ns)
        out.about = std::move(*process);
}

void RuleMemory::fire(const Rule &rule, const Event &event, const ProcessFacts &process, Decision &out) {
    // A rule about the host fires for whoever's match completed it: its limit is nobody's own.
    const bool of_all = std::ranges::all_of(rule.conditions, of_host);
    const auto uid = of_all ? std::nullopt : std::optional(uid_of(process));
    auto answer = limits_.ask(rule.limit, limit_key(rule.limit.by, process), uid, event.t_ns);
    if (!answer.held_by.empty()) {
        ++counters_.suppressed;
        out.outcome = Outcome::Suppressed;
        out.why = std::move(answer.held_by);
        out.matches = {};
        out.matches_total = out.value_total = 0;
        return;
    }
    ++counters_.fired;
    out.outcome = Outcome::Fire;
    out.suppressed_before = answer.suppressed_before;
    order(out.matches);
}

void RuleMemory::collect(const Rule &rule, std::size_t index, const Event &event, const ProcessFacts &process,
                         Decision &out) {
    const auto &condition = rule.conditions[index];
    if (!condition.tally.each()) {
        conditions_[index].tally.collect(TallyKey(condition.tally.by, process).text(), index, out);
        return;
    }
    Mark match{event.t_ns, value_of(event.what)};
    if (rule.combine == Combine::All)
        if (const Mark *mark = all_.mark(rule, index, process))
            match = *mark;
    if (std::holds_alternative<MemoryCondition>(condition.what) &&
        conditions_[index].samples.collect(TallyKey(TallyBy::Process, process).text(), index, match.t_ns, out))
        return;
    out.matches.push_back({match.t_ns, match.value, index});
    out.value_total += match.value;
    ++out.matches_total;
}

void RuleMemory::restart(const Rule &rule, std::size_t index, const ProcessFacts &process) {
    conditions_[index].tally.restart(TallyKey(rule.conditions[index].tally.by, process).text());
    if (const auto *memory = std::get_if<MemoryCondition>(&rule.conditions[index].what))
        conditions_[index].samples.restart(*memory, TallyKey(TallyBy::Process, process).text());
}

// Tallies by process start again. Tallies that processes share go on, unless the rule has only such tallies.
void RuleMemory::restart_all(const Rule &rule, const ProcessFacts &process) {
    const auto own = [](const auto &condition) { return condition.tally.by == TallyBy::Process; };
    const bool some_own = std::any_of(rule.conditions.begin(), rule.conditions.end(), own);
    for (std::size_t i = 0; i < rule.conditions.size(); ++i) {
        if (some_own && !own(rule.conditions[i]))
            continue;
        restart(rule, i, process);
        all_.clear(rule, i, process);
    }
}

RuleCounters RuleMemory::counters() const {
    RuleCounters counters = counters_;
    counters.forgotten_keys = forgotten_before_ + limits_.forgotten() + all_.forgotten();
    for (const Condition &condition : conditions_)
        counters.forgotten_keys += condition.tally.forgotten() + condition.samples.forgotten();
    return counters;
}

void RuleMemory::take_counters(const RuleCounters &before) {
    counters_ = before;
    forgotten_before_ = before.forgotten_keys;
}

} // namespace incident::rules
