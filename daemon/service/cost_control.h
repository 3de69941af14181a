// Measures what incidentd costs, and does what the governor decides.
#pragma once

#include "daemon/cost/cost_loads.h"
#include "daemon/watch/watches.h"
#include "rules/files/config.h"

namespace incident::daemon {

// What incidentd costs, and what the governor has decided about it.
struct CostStatus {
    const CostMeter &meter;
    const Governor &governor;
    const std::optional<CostMeasurement> &measured; // nullopt: not yet
    std::int64_t realtime_offset_ns = 0;            // wall clock minus monotonic
    bool durations = true;                          // calls have some, but for those of processes that are left out
};

class CostControl {
public:
    // Everything given by reference must outlive this object.
    CostControl(Recorder &recorder, const RulesInForce &rules, Watches &watches, const rules::Config &config);

    // Begins or ends a measurement; returns when to call again (ns from now).
    std::uint64_t tick(std::uint64_t now_ns);
    // Call it when the rules have changed: decides again about what they ask for in another way.  true: measure again
    // soon, because something is tried again.
    bool review(std::uint64_t now_ns);
    // The one place that decides whether system calls have durations, from the configuration, the rules and the budget.
    void record_durations();

    // Adds the conditions whose probes are off for their cost, so that their rules do nothing.
    void describe(ConditionStates &states) const;
    capture::CostRecord record(std::uint32_t pid) const; // for a bundle about this process
    CostStatus status() const;
    const Governor &governor() const { return governor_; }

private:
    std::string reason_of(const CostStep &step) const;
    void log(const Governor::Change &change) const;
    void obey(std::uint64_t now_ns);
    void leave_untimed();
    std::set<capture::ProcessRef> untimed() const; // whose durations the governor leaves out

    Recorder &recorder_;
    const RulesInForce &rules_;
    Watches &watches_;
    bool durations_wanted_; // [record] durations
    CostMeter meter_;
    CostLoads loads_;
    std::uint64_t began_ns_ = 0;
    std::optional<CostMeasurement> measured_; // the last
    Governor governor_;
};

} // namespace incident::daemon
