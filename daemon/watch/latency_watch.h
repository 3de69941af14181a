// The latency rules at work: which probes they want, what the kernel side and the scanner
// say of slow calls, and how the probes fare.
#pragma once

#include "daemon/facts/facts_cache.h"
#include "daemon/facts/occurrence.h"
#include "daemon/plan/rule_history.h"
#include "daemon/plan/trigger_plan.h"
#include "daemon/record/rule_states.h"
#include "daemon/watch/latency_probes.h"

#include <deque>
#include <unordered_map>

namespace incident::daemon {

class LatencyWatch {
public:
    LatencyWatch(Recorder &recorder, const capture::OsRoots &os);

    // The rules from now on.  Every process they are about is told of again by the kernel
    // side (EVENT_STARTED), for the generation of decisions moves on with the rules.
    void set_rules(std::span<const rules::Rule> rules, const TriggerPlan &plan, std::uint64_t now_ns);
    // A process that latency rules are about has been seen for the first time.
    void started(const rules::ProcessFacts &process, std::span<const rules::Rule> rules, std::uint64_t now_ns);
    // The process is about to run code that its dynamic loader has mapped.
    void code_loaded(std::uint32_t pid, std::uint64_t now_ns) { probes_.code_loaded(pid, now_ns); }
    // Takes the probes out of processes that have ended; now and then.
    void forget_ended();

    // A slow call that is over, once for each condition it may concern: those whose rules are what they were when it
    // was measured.  Answers how many that was; one that the kernel side has signalled concerns somebody in any case.
    std::size_t over(const bpf::latency_event &event, FactsCache &facts, const RuleHistory &history,
                     const std::function<void(Occurrence)> &on_slow);
    // Calls that are still running.  Returns when to be called again, monotonic; ~0: never.
    std::uint64_t look(FactsCache &facts, std::uint64_t now_ns, const std::function<void(Occurrence)> &on_overdue);

    void hold(std::set<std::string> keys, std::uint64_t now_ns) { probes_.hold(std::move(keys), now_ns); }
    void measure_traps() { probes_.measure_traps(); }
    std::vector<LatencyProbes::Load> loads() const { return probes_.loads(); }
    // Adds the state of each condition.
    void describe(ConditionStates &states) const;

private:
    static constexpr std::size_t remembered = 1024; // overdue calls that were told of

    struct Told {
        std::uint32_t slot;
        std::uint64_t generation, start_ns, deadline_ns;
    };
    capture::LatencyTrigger trigger_of(const WantedProbe &wanted, const bpf::call_frame &frame) const;

    Recorder &recorder_;
    capture::OsRoots os_;
    RecorderLatency kernel_;
    LatencyProbes probes_;
    std::unordered_map<std::uint32_t, std::uint64_t> processes_; // pid → start, of those told of
    std::deque<Told> told_;
};

} // namespace incident::daemon
