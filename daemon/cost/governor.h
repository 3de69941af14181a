// Keeps what incidentd costs within its budget: one measurement in, what is left out from now on.
// Pure: no I/O, no clock.
//
// Rules are the purpose, so what is optional goes first, and a rule goes for nothing but what it takes for the
// processes it is about.  Where the probes of one rule take more of a CPU for these than the budget, they are taken off
// at once. Where all together takes more of each CPU, one step is taken a measurement, in this order:
//   heaps recorded at level "history" go to "sizes", the costliest process first
//   heaps recorded at level "sizes" go to "pages", likewise
//   durations of system calls are not measured
// Where the probes of all rules take more of each CPU for the processes the rules are about, the costliest are taken
// off. What takes less than a twentieth of the budget is passed over.  Recording, and programs that run for everybody
// only to find that no rule is about the caller, turn no rule off, however often the machine calls: where they are over
// the budget, that is said.  Fatal signals, the OOM killer and what happens to processes are no probes here: they are
// always recorded.
//
// Steps for the total are undone in the opposite order, one a measurement, after `calm_measurements`
// in a row with the step undone would each have been below 70 % of the budget; probes after as many in which those of
// all rules were.  What a probe that is off would cost now nobody can see: it is tried, when its wait is over.  A step
// that has to be taken again within its wait waits twice as long, up to an hour.
#pragma once

#include "rules/model/rule.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace incident::daemon {

// Shares are of one CPU, 0..CPUs.
struct CostMeasurement {
    std::uint64_t t_ns = 0; // monotonic
    unsigned cpus = 1;
    double programs = 0; // all of the kernel side
    double daemon = 0;   // its own CPU time
    double total() const { return (programs + daemon) / cpus; }

    struct Heap {
        std::uint32_t pid = 0;
        std::string comm;
        rules::Allocations asked = rules::Allocations::Pages, level = rules::Allocations::Pages;
        double share = 0, calls_per_second = 0;
        double lower_saves = 0; // of it, with the level one lower
        double higher_adds = 0; // with the level one higher; 0 at "pages", where no calls are seen
    };
    std::vector<Heap> heaps; // of processes that are to be recorded

    // What measuring how long system calls last takes, or would take at their present rate.
    struct Durations {
        bool can_be_left_out = false;
        double share = 0, calls_per_second = 0;
    } durations;

    struct Probes { // that are put and taken off together
        std::string key, name;
        std::vector<std::string> conditions; // "RULE:CONDITION"
        bool attached = true;
        double share = 0, calls_per_second = 0; // for processes the conditions are about
        std::string asked;                      // the text of their rules
    };
    std::vector<Probes> probes;

    // Of `programs`: runs of rules' programs for processes that no rule of theirs is about.
    struct Strangers {
        double share = 0, calls_per_second = 0;
    } strangers;
};

struct CostBudget {
    std::optional<double> share; // of each CPU, and of one CPU for one probe; nullopt: no limit
    std::uint64_t every_ns = 0;  // from measurement to measurement
};

struct CostStep {
    enum class Kind { HistoryToSizes, SizesToPages, Durations, Probes } kind = Kind::Probes;
    std::string subject; // the process's pid, the probes' key; "" of durations
    std::string name;    // for people
    std::vector<std::string> conditions;
    bool by_itself = false; // over the budget alone; otherwise the total was
    double total = 0;       // when it was taken
    double share = 0, calls_per_second = 0;
    std::uint64_t since_ns = 0, retry_ns = 0; // not undone before
    std::string asked;                        // of probes: the text of their rules
};

class Governor {
public:
    static constexpr unsigned calm_measurements = 3;
    static constexpr double calm_share = 0.7, least_saving = 0.05; // of the budget
    static constexpr std::uint64_t longest_wait_ns = 3'600'000'000'000;

    explicit Governor(CostBudget budget = {}) : budget_(budget) {}

    struct Change {
        CostStep step;
        enum class What { Taken, Undone, Moot } what = What::Taken; // Moot: its subject is gone
    };
    std::vector<Change> measured(const CostMeasurement &now);
    // After a reload: steps about what is asked for no longer, or otherwise than before, are as if they had never been.
    void forget(const std::function<bool(const CostStep &)> &is_another_now);

    const CostBudget &budget() const { return budget_; }
    const std::vector<CostStep> &steps() const { return steps_; } // oldest first
    // The total is over the budget and no step is left that would help.
    bool at_the_end() const { return at_the_end_; }

private:
    struct Waited {
        std::uint64_t wait_ns = 0, undone_ns = 0;
    };
    using Changes = std::vector<Change>;

    void drop_moot(const CostMeasurement &now, Changes &changes);
    double take_hot(const CostMeasurement &now, Changes &changes);
    std::optional<CostStep> next_step(const CostMeasurement &now) const;
    std::optional<CostStep> next_probes(const CostMeasurement &now) const;
    void take(CostStep step, const CostMeasurement &now, Changes &changes);
    bool undo(const CostMeasurement &now, Changes &changes);
    bool undo_probes(const CostMeasurement &now, Changes &changes);
    void undo(std::vector<CostStep>::iterator which, const CostMeasurement &now, Changes &changes);

    CostBudget budget_;
    std::vector<CostStep> steps_;
    std::map<std::string, Waited> waited_; // by kind and subject
    unsigned calm_ = 0, rules_calm_ = 0;   // measurements in a row: of the total, of the rules' probes
    bool at_the_end_ = false;
};

// "history to sizes for pid 12 (server)", "probes of uprobe:…"
std::string step_text(const CostStep &step);
// Why, and when it is tried again; realtime_offset_ns: wall clock minus monotonic.
std::string step_reason(const CostStep &step, double budget, std::int64_t realtime_offset_ns);
// What is said where no step is left: what takes that much, and what can be done about it.
std::string beyond_steps_text(const CostMeasurement &now, const Governor &governor);
// "3.2 %", "0.05 %"
std::string percent_text(double share);

} // namespace incident::daemon
