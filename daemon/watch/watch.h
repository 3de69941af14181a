// A watch: what one kind of trigger, or of context, needs in user space.
//
// Each kind has a room of its own below this one.  The daemon knows them as a list (Watches), which is made in
// daemon/service/all_watches.cpp: a new kind is its own room and one line there.
#pragma once

#include "bpf/event.h"
#include "capture/collect/collect.h"
#include "capture/collect/snapshot.h"
#include "daemon/cost/cost_meter.h"
#include "daemon/cost/governor.h"
#include "daemon/facts/facts_cache.h"
#include "daemon/facts/occurrence.h"
#include "daemon/plan/rules_in_force.h"
#include "daemon/record/recorder.h"
#include "daemon/record/rule_states.h"

#include <nlohmann/json_fwd.hpp>

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace incident::daemon {

// What watches work with.  All of it outlives them.
struct WatchContext {
    capture::OsRoots os;
    Recorder &recorder;
    FactsCache &facts;
    const RulesInForce &rules;
    std::function<void(Occurrence)> occur; // offers it to the rules
};

// Read on the writer's thread, because there is much to read.
using LateReading = std::function<void(capture::IncidentInput &)>;

// An incident whose rule has just fired.
struct FiredIncident {
    const rules::Decision &decision;
    capture::IncidentInput &input;
    capture::Collected &collected;
    std::vector<LateReading> &late;

    // The condition that was met last, if it is of that kind.
    template <typename Condition> const Condition *condition() const {
        return std::get_if<Condition>(&decision.rule->conditions[decision.condition].what);
    }
};

// A step of the governor that is in force, and how people are told of it.
struct CostLimit {
    const CostStep &step;
    std::string reason;
};

class Watch {
public:
    static constexpr std::uint64_t never = ~0ull;

    explicit Watch(const WatchContext &context) : context_(context) {}
    virtual ~Watch() = default;
    Watch(const Watch &) = delete;
    Watch &operator=(const Watch &) = delete;

    // ---- rules ------------------------------------------------------------------------
    // The rules are others (WatchContext::rules): attaches what they need, lets go of what they no longer need.
    virtual void apply(std::uint64_t now_ns) = 0;
    // Adds the state of each condition that this watch answers for.
    virtual void describe(ConditionStates &) const {}

    // ---- time -------------------------------------------------------------------------
    // Looks at what is due; returns when to look again (monotonic ns), or never.
    virtual std::uint64_t poll(std::uint64_t) { return never; }
    // When poll() is due.  Everybody is polled once after apply().
    std::uint64_t due_ns() const { return due_ns_; }
    void poll_when_due(std::uint64_t now_ns) {
        if (due_ns_ > now_ns)
            return;
        due_ns_ = never;
        due_ns_ = std::min(poll(now_ns), due_ns_);
    }
    // Once a second: lets go of what has ended.  true: the rules must be loaded anew, for what they rest on has
    // changed.
    virtual bool tend(std::uint64_t) { return false; }

    // ---- events -----------------------------------------------------------------------
    // An event of the ring buffer that is of no assembly.  nullopt: not this watch's; false: its rules are gone.
    virtual std::optional<bool> take(const bpf::event_header &, std::span<const std::uint8_t>) { return std::nullopt; }
    // A process that rules with a part in TriggerPlan::told() are about runs its program, or is told of again after
    // apply().  Twice is harmless.
    virtual void started(const rules::ProcessFacts &) {}

    // ---- incidents --------------------------------------------------------------------
    // Something has happened, and no rule has been asked yet.
    virtual void before_rules(Occurrence &) {}
    // Adds what only now, and only this watch, can say.
    virtual void add_context(const FiredIncident &) const {}

    // ---- status and cost ----------------------------------------------------------------
    // Adds its part to what `incidentctl status` shows.
    virtual void add_status(nlohmann::ordered_json &) const {}
    // Right before run times are counted; when that begins; and after `seconds` of it, to add what its probes took.
    virtual void prepare_measurement() {}
    virtual void begin_measurement() {}
    virtual void end_measurement(const CostMeter &, double, CostMeasurement &) const {}
    // The conditions ("RULE:CONDITION") that the probes with that key (CostMeasurement::Probes) serve now; nullopt: the
    // key is of no probes of this watch.
    virtual std::optional<std::vector<std::string>> conditions_of(std::string_view) const { return std::nullopt; }
    // Does without what these steps name, and with all else.
    virtual void obey(std::span<const CostLimit>, std::uint64_t) {}

protected:
    void wake() { due_ns_ = 0; } // poll() is due at once
    void wake_at(std::uint64_t ns) { due_ns_ = std::min(due_ns_, ns); }

    const WatchContext &context_;

private:
    friend class Watches;
    std::uint64_t due_ns_ = never;
};

} // namespace incident::daemon
