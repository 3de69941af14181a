// Keeps the cost of incidentd within its budget.  It takes one measurement and decides what is left out from now on.
// It does no I/O and reads no clock.
//
// Rules are what incidentd is for, so optional things are left out first, and a rule is turned off only for the time
// that its probes take in the processes it is about.  If the probes of one rule take more of a CPU there than the
// budget, they are detached at once.  Everything else needs two measurements in a row, so that a busy second is not
// enough.  If everything together takes more of each CPU, each measurement takes one step from the process that costs
// most of those that cost more than their part of the budget, and of it what its incident would miss least:
//   the durations of its system calls are not measured
//   its heap, recorded at level "history", goes to "sizes"
//   its heap, recorded at level "sizes", goes to "pages"
// A user's part is what she may take if who takes less leaves the rest to the others, and likewise a process's part of
// that, so that nobody's many processes make another's part small.  Nobody pays for others, nor
// for what is no process's that lives on: processes that are gone at once, the daemon, and programs that run for every
// process only to find that no rule is about it.
// If the probes of all rules take more of each CPU in the processes the rules are about, the costliest probes are
// detached.  What takes less than a twentieth of the budget stays, of durations a fifth of that.  Recording turns no
// rule off: if it is over the budget, the status says so.  Fatal signals, the OOM killer, and starts and ends of
// processes are always recorded; they do not count as probes.
//
// Steps for the total are undone in the opposite order, one in each measurement.  A step is undone when in each of the
// last `calm_measurements` the total would have been below 70 % of the budget without it, or the process below 70 % of
// its part; detached probes come back when the probes of all rules were below 70 % of the budget in as many.  Nobody
// can see what a detached probe or a heap at "pages" would cost now, so the probe is tried when its wait is over, and
// the heap when there is room in the total.  A step that must be taken again within its wait then waits twice as long,
// up to an hour.
#pragma once

#include "capture/os/process_ref.h"
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
    double daemon = 0;   // CPU time of the daemon itself
    double total() const { return (programs + daemon) / cpus; }

    struct Heap {
        std::uint32_t pid = 0;
        std::string comm;
        rules::Allocations asked = rules::Allocations::Pages, level = rules::Allocations::Pages;
        double share = 0, calls_per_second = 0;
        double lower_saves = 0; // how much less it would be one level lower
        double higher_adds = 0; // how much more one level higher; 0 at "pages", where no calls are seen
    };
    std::vector<Heap> heaps; // one for each process that is to be recorded

    struct Process { // one whose calls are recorded
        capture::ProcessRef process;
        std::string comm;
        std::uint32_t user = 0; // whose it is: another number for each user, and for each service of root
        bool timed = true;      // its calls have durations, or would if any had
        double share = 0;       // of recording its calls
        double durations = 0;   // of that for measuring how long they last, or what it would be
        double calls_per_second = 0;
    };
    std::vector<Process> processes; // costliest first

    // Whether a process's durations can be left out, and what measuring those of all costs now.
    struct Durations {
        bool can_be_left_out = false;
        double share = 0;
    } durations;

    struct Probes { // probes that are attached and detached together
        std::string key, name;
        std::vector<std::string> conditions; // "RULE:CONDITION"
        bool attached = true;
        double share = 0, calls_per_second = 0; // in the processes that the conditions are about
        std::string asked;                      // the text of their rules
    };
    std::vector<Probes> probes;

    // The part of `programs` that rules' programs take in processes that none of their rules is about.
    struct Strangers {
        double share = 0, calls_per_second = 0;
    } strangers;
};

struct CostBudget {
    std::optional<double> share;     // of each CPU, and of one CPU for one probe; nullopt: no limit
    std::uint64_t every_ns = 0;      // from measurement to measurement
    unsigned over_before_a_step = 2; // measurements in a row
};

struct CostStep {
    enum class Kind { HistoryToSizes, SizesToPages, Durations, Probes } kind = Kind::Probes;
    std::string subject;         // which process, or the key of the probes
    std::string name;            // for people
    capture::ProcessRef process; // of a heap without its start
    std::vector<std::string> conditions;
    bool by_itself = false; // it was over the budget alone; else the total was
    double total = 0;       // when it was taken
    double share = 0, calls_per_second = 0;
    std::uint64_t since_ns = 0, retry_ns = 0; // retry_ns: the step is not undone before
    std::string asked;                        // the text of the rules that the probes serve
};

class CostParts; // cost_parts.h

class Governor {
public:
    static constexpr unsigned calm_measurements = 3, soon_at_most = 20;
    static constexpr double calm_share = 0.7, least_saving = 0.05, least_durations = 0.01; // of the budget
    static constexpr std::uint64_t longest_wait_ns = 3'600'000'000'000;

    explicit Governor(CostBudget budget = {}) : budget_(budget) {}

    struct Change {
        CostStep step;
        enum class What { Taken, Undone, Moot } what = What::Taken; // Moot: its subject is gone
    };
    std::vector<Change> measured(const CostMeasurement &now);
    // Call it after a reload: forgets steps about things that rules no longer ask for, or ask for in another way.
    void forget(const std::function<bool(const CostStep &)> &is_another_now);

    const CostBudget &budget() const { return budget_; }
    const std::vector<CostStep> &steps() const { return steps_; } // oldest first
    // Whether the total is over the budget and no step is left that would help.
    bool at_the_end() const { return at_the_end_; }
    // Whether the budget is exceeded and a step may follow: measure again soon.  Not for ever, where processes that
    // cost too much come and go.
    bool is_unsettled() const;

private:
    struct Waited {
        std::uint64_t wait_ns = 0, undone_ns = 0;
    };
    using Changes = std::vector<Change>;

    void drop_moot(const CostMeasurement &now, Changes &changes);
    double take_hot(const CostMeasurement &now, Changes &changes);
    std::optional<CostStep> next_step(const CostMeasurement &now, const CostParts &parts);
    std::optional<CostStep> next_probes(const CostMeasurement &now) const;
    void take(CostStep step, const CostMeasurement &now, Changes &changes);
    bool is_calm(const CostStep &step, const CostMeasurement &now, const CostParts &parts) const;
    bool undo(const CostMeasurement &now, const CostParts &parts, Changes &changes);
    bool undo_probes(const CostMeasurement &now, Changes &changes);
    void undo(std::vector<CostStep>::iterator which, const CostMeasurement &now, Changes &changes);

    CostBudget budget_;
    std::vector<CostStep> steps_;
    std::map<std::string, Waited> waited_; // by kind and subject
    // Measurements in a row: in which a step (by kind and subject) could have been undone, in which a process (by pid)
    // was over its part, in which the total and the rules' probes were over the budget, in which the latter were calm.
    std::map<std::string, unsigned> calm_;
    std::map<std::uint32_t, unsigned> costly_;
    unsigned over_ = 0, rules_over_ = 0, rules_calm_ = 0;
    bool at_the_end_ = false;
};

// "history to sizes for pid 12 (server)", "probes of uprobe:…"
std::string step_text(const CostStep &step);
// Why the step was taken, and when it is tried again; realtime_offset_ns: wall clock minus monotonic.
std::string step_reason(const CostStep &step, double budget, std::int64_t realtime_offset_ns);
// The message for when no step is left: what costs that much, and what can be done about it.
std::string beyond_steps_text(const CostMeasurement &now, const Governor &governor);
// "3.2 %", "0.05 %"
std::string percent_text(double share);

} // namespace incident::daemon
