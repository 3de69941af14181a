// A watch does what one kind of trigger, or of context, needs in user space.
//
// Each kind has a room of its own below this one.  The daemon knows the watches only as a list (Watches), which is
// made in daemon/service/all_watches.cpp: a new kind needs its own room and one line there.
#pragma once

#include "bpf/event.h"
#include "capture/collect/collect.h"
#include "capture/collect/hanging.h"
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

// What watches work with.  All of it outlives the watches.
struct WatchContext {
    capture::OsRoots os;
    Recorder &recorder;
    FactsCache &facts;
    const RulesInForce &rules;
    std::function<void(Occurrence)> occur; // offers the occurrence to the rules
};

// A part of the incident that is read on the writer's thread, because reading it takes long.
using LateReading = std::function<void(capture::IncidentInput &)>;

// An incident whose rule has just fired.
struct FiredIncident {
    const rules::Decision &decision;
    capture::IncidentInput &input;
    capture::Collected &collected;
    std::vector<LateReading> &late;

    // The condition that was met last, or nullptr if it is of another kind.
    template <typename Condition> const Condition *condition() const {
        return std::get_if<Condition>(&decision.rule->conditions[decision.condition].what);
    }
};

// A step of the governor that is in force, and the text that tells people about it.
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
    // Called when the rules have changed (WatchContext::rules): attaches what they need and detaches what they no
    // longer need.
    virtual void apply(std::uint64_t now_ns) = 0;
    // Adds the state of each condition that this watch answers for.
    virtual void describe(ConditionStates &) const {}

    // ---- time -------------------------------------------------------------------------
    // Does what is due; returns when to call again (monotonic ns), or never.
    virtual std::uint64_t poll(std::uint64_t) { return never; }
    // When poll() is due.  Every watch is polled once after apply().
    std::uint64_t due_ns() const { return due_ns_; }
    void poll_when_due(std::uint64_t now_ns) {
        if (due_ns_ > now_ns)
            return;
        due_ns_ = never;
        due_ns_ = std::min(poll(now_ns), due_ns_);
    }
    // Called once a second: forgets what has ended.  true: the rules must be loaded again, because something they rest
    // on has changed.
    virtual bool tend(std::uint64_t) { return false; }

    // ---- events -----------------------------------------------------------------------
    // Takes an event of the ring buffer that belongs to no assembly.  nullopt: the event is not for this watch; false:
    // it is, but its rules are gone.
    virtual std::optional<bool> take(const bpf::event_header &, std::span<const std::uint8_t>) { return std::nullopt; }
    // Called when a process starts its program and a rule in TriggerPlan::told() is about it, and again after apply();
    // or later, where the kernel side had no room to tell of it.  A second call for the same process does no harm.
    virtual void started(const rules::ProcessFacts &) {}
    // Called when the daemon has decided that this process is watched.  Of others like it the kernel side decides then.
    virtual void watched(const capture::Subject &) {}

    // ---- incidents --------------------------------------------------------------------
    // Called when something has happened, before the rules decide about it.
    virtual void before_rules(Occurrence &) {}
    // Adds to the incident what only this watch knows, and only now.
    virtual void add_context(const FiredIncident &) const {}

    // ---- status and cost ----------------------------------------------------------------
    // Adds its part to what `incidentctl status` shows.
    virtual void add_status(nlohmann::ordered_json &) const {}
    // Called right before run times are counted, when the counting begins, and after `seconds` of it.  The last one
    // adds what the probes of this watch took.
    virtual void prepare_measurement() {}
    virtual void begin_measurement() {}
    virtual void end_measurement(const CostMeter &, double, CostMeasurement &) const {}
    // The conditions ("RULE:CONDITION") that the probes with this key (CostMeasurement::Probes) serve now; nullopt:
    // this watch has no probes with the key.
    virtual std::optional<std::vector<std::string>> conditions_of(std::string_view) const { return std::nullopt; }
    // Detaches what these steps name, and attaches again whatever else was detached for its cost.
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
