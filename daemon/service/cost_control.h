// Measures what incidentd costs, and does what the governor says.
#pragma once

#include "daemon/cost/cost_loads.h"
#include "daemon/watch/watches.h"
#include "rules/files/config.h"

#include <nlohmann/json_fwd.hpp>

namespace incident::daemon {

// What incidentd costs, and what the governor makes of it.
struct CostStatus {
    const CostMeter &meter;
    const Governor &governor;
    const std::optional<CostMeasurement> &measured; // nullopt: not yet
    std::int64_t realtime_offset_ns = 0;            // wall clock minus monotonic
};

class CostControl {
public:
    // All that is given by reference outlives it.
    CostControl(Recorder &recorder, const RulesInForce &rules, Watches &watches, const rules::Config &config);

    // Begins or ends a measurement; returns when to call again (ns from now).
    std::uint64_t tick(std::uint64_t now_ns);
    // The rules are others: decides anew about what is asked for otherwise.  true: measure again soon, for something is
    // tried again.
    bool review(std::uint64_t now_ns);
    // The one place that says whether system calls have durations: as configured, as rules need it, as the budget
    // allows.
    void record_durations();

    // Adds the conditions whose probes are off for what they cost: of rules that do nothing.
    void describe(ConditionStates &states) const;
    capture::CostRecord record() const; // for a bundle
    CostStatus status() const;
    const Governor &governor() const { return governor_; }

private:
    std::string reason_of(const CostStep &step) const;
    void log(const Governor::Change &change) const;
    void obey(std::uint64_t now_ns);

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
