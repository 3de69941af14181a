#include "daemon/cost/governor.h"

#include "capture/decode/decode_text.h"
#include "daemon/cost/cost_parts.h"

#include <algorithm>

namespace incident::daemon {

namespace {

using Kind = CostStep::Kind;
using Heap = CostMeasurement::Heap;
using Process = CostMeasurement::Process;

std::string key_of(const CostStep &step) {
    return std::to_string(static_cast<int>(step.kind)) + step.subject;
}

// comm is the process's own word.
std::string name_of(std::uint32_t pid, const std::string &comm) {
    return "pid " + std::to_string(pid) + " (" + capture::terminal_text(comm) + ")";
}

CostStep step_of(const Heap &heap) {
    return {.kind = heap.level == rules::Allocations::History ? Kind::HistoryToSizes : Kind::SizesToPages,
            .subject = std::to_string(heap.pid),
            .name = name_of(heap.pid, heap.comm),
            .process = {.pid = heap.pid, .start = {}},
            .share = heap.lower_saves,
            .calls_per_second = heap.calls_per_second};
}

CostStep step_of(const Process &of) {
    return {.kind = Kind::Durations,
            .subject = std::to_string(of.process.pid) + " " + std::to_string(of.process.start.ns),
            .name = name_of(of.process.pid, of.comm),
            .process = of.process,
            .share = of.durations,
            .calls_per_second = of.calls_per_second};
}

CostStep step_of(const CostMeasurement::Probes &probes) {
    return {.kind = Kind::Probes,
            .subject = probes.key,
            .name = probes.name,
            .conditions = probes.conditions,
            .share = probes.share,
            .calls_per_second = probes.calls_per_second,
            .asked = probes.asked};
}

const Heap *heap_of(const CostMeasurement &now, const CostStep &step) {
    const auto found =
        std::ranges::find_if(now.heaps, [&](const Heap &heap) { return std::to_string(heap.pid) == step.subject; });
    return found == now.heaps.end() ? nullptr : &*found;
}

const Process *process_of(const CostMeasurement &now, const CostStep &step) {
    const auto found = std::ranges::find(now.processes, step.process, &Process::process);
    return found == now.processes.end() ? nullptr : &*found;
}

bool is_moot(const CostStep &step, const CostMeasurement &now) {
    switch (step.kind) {
    case Kind::Durations:
        return !now.durations.can_be_left_out || !process_of(now, step);
    case Kind::Probes:
        return std::ranges::find(now.probes, step.subject, &CostMeasurement::Probes::key) == now.probes.end();
    case Kind::HistoryToSizes:
    case Kind::SizesToPages:
        break;
    }
    const Heap *heap = heap_of(now, step);
    const auto to = step.kind == Kind::HistoryToSizes ? rules::Allocations::Sizes : rules::Allocations::Pages;
    return !heap || heap->asked <= to;
}

// What undoing it would add now; nothing where that cannot be seen.
double undone_adds(const CostStep &step, const CostMeasurement &now) {
    if (step.kind == Kind::Durations) {
        const Process *process = process_of(now, step);
        return process ? process->durations : 0;
    }
    const Heap *heap = step.kind == Kind::HistoryToSizes ? heap_of(now, step) : nullptr;
    return heap ? heap->higher_adds : 0;
}

// What the probes of all rules take for the processes they are about, of one CPU.
double of_rules(const CostMeasurement &now) {
    double sum = 0;
    for (const auto &probes : now.probes)
        sum += probes.share;
    return sum;
}

} // namespace

std::vector<Governor::Change> Governor::measured(const CostMeasurement &now) {
    Changes changes;
    if (!budget_.share)
        return changes;
    drop_moot(now, changes);
    const double saved = take_hot(now, changes);
    const CostParts parts(now, *budget_.share * now.cpus);
    at_the_end_ = false;
    bool taken = saved > 0;
    over_ = now.total() - saved / now.cpus > *budget_.share ? over_ + 1 : 0;
    if (!over_) {
        costly_.clear();
    } else if (auto step = next_step(now, parts)) {
        take(std::move(*step), now, changes);
        taken = true;
    } else {
        at_the_end_ = over_ >= budget_.over_before_a_step && costly_.empty(); // else it is not yet sure
    }
    rules_over_ = (of_rules(now) - saved) / now.cpus > *budget_.share ? rules_over_ + 1 : 0;
    if (rules_over_)
        rules_calm_ = 0;
    if (rules_over_ >= budget_.over_before_a_step && !taken) {
        if (auto step = next_probes(now)) {
            take(std::move(*step), now, changes);
            taken = true;
            at_the_end_ = false;
        }
    }
    // What has just changed shows in the next measurement.
    if (!taken && !undo(now, parts, changes))
        undo_probes(now, changes);
    return changes;
}

void Governor::forget(const std::function<bool(const CostStep &)> &is_another_now) {
    std::erase_if(steps_, [&](const CostStep &step) {
        if (!is_another_now(step))
            return false;
        waited_.erase(key_of(step));
        calm_.erase(key_of(step));
        return true;
    });
}

bool Governor::is_unsettled() const {
    const unsigned over = std::max(over_, rules_over_);
    return over > 0 && over <= soon_at_most && !at_the_end_;
}

void Governor::drop_moot(const CostMeasurement &now, Changes &changes) {
    std::erase_if(steps_, [&](const CostStep &step) {
        if (!is_moot(step, now))
            return false;
        changes.push_back({step, Change::What::Moot});
        waited_.erase(key_of(step));
        calm_.erase(key_of(step));
        return true;
    });
    // What nobody has taken again for two of the longest waits begins anew anyway.
    std::erase_if(waited_, [&](const auto &item) {
        return item.second.undone_ns && now.t_ns - item.second.undone_ns > 2 * longest_wait_ns;
    });
}

// Returns what that saves.
double Governor::take_hot(const CostMeasurement &now, Changes &changes) {
    double saved = 0;
    for (const auto &probes : now.probes) {
        if (!probes.attached || probes.share <= *budget_.share)
            continue;
        CostStep step = step_of(probes);
        step.by_itself = true;
        saved += step.share;
        take(std::move(step), now, changes);
    }
    return saved;
}

// Of the process that costs most of those over their part, the step that its incident would miss least; if it has none
// left, of the next.
std::optional<CostStep> Governor::next_step(const CostMeasurement &now, const CostParts &parts) {
    const double budget = *budget_.share * now.cpus;
    std::map<std::uint32_t, unsigned> costly;
    std::optional<CostStep> found;
    double most = 0;
    const auto consider = [&](std::uint32_t pid, const auto &of) {
        if (!parts.is_over(pid))
            return;
        const double share = parts.share_of(pid);
        const unsigned times = costly_[pid] + 1;
        costly[pid] = times;
        if (times < budget_.over_before_a_step || share <= most)
            return;
        most = share;
        found = step_of(of);
    };
    for (const Process &process : now.processes)
        if (now.durations.can_be_left_out && process.timed && process.durations >= least_durations * budget)
            consider(process.process.pid, process);
    for (const Heap &heap : now.heaps) // by all it takes: the way to "pages" is by "sizes"
        if (heap.level != rules::Allocations::Pages && heap.share >= least_saving * budget)
            consider(heap.pid, heap);
    costly_ = std::move(costly);
    return found;
}

std::optional<CostStep> Governor::next_probes(const CostMeasurement &now) const {
    const double least = least_saving * *budget_.share * now.cpus;
    const CostMeasurement::Probes *costliest = nullptr;
    for (const auto &probes : now.probes)
        if (probes.attached && probes.share >= least && probes.share <= *budget_.share && // others are off by now
            (!costliest || probes.share > costliest->share))
            costliest = &probes;
    if (!costliest)
        return std::nullopt;
    CostStep step = step_of(*costliest);
    step.total = of_rules(now) / now.cpus;
    return step;
}

void Governor::take(CostStep step, const CostMeasurement &now, Changes &changes) {
    Waited &waited = waited_[key_of(step)];
    const std::uint64_t shortest = std::min(calm_measurements * budget_.every_ns, longest_wait_ns);
    const bool again = waited.undone_ns && now.t_ns - waited.undone_ns <= waited.wait_ns;
    waited.wait_ns = again ? std::min(2 * waited.wait_ns, longest_wait_ns) : shortest;
    if (step.kind != Kind::Probes)
        step.total = now.total();
    step.since_ns = now.t_ns;
    step.retry_ns = now.t_ns + waited.wait_ns;
    changes.push_back({step, Change::What::Taken});
    steps_.push_back(std::move(step));
    rules_calm_ = 0;
    calm_.clear();
}

// Whether it would not be taken again at once.
bool Governor::is_calm(const CostStep &step, const CostMeasurement &now, const CostParts &parts) const {
    const double adds = undone_adds(step, now);
    if (now.total() + adds / now.cpus < calm_share * *budget_.share)
        return true;
    return step.kind != Kind::SizesToPages && // of which nobody knows
           !parts.is_over(step.process.pid, adds, calm_share);
}

// The latest of those for the total that can be.  Of a heap there may be two, one upon the other.
bool Governor::undo(const CostMeasurement &now, const CostParts &parts, Changes &changes) {
    auto which = steps_.end();
    for (auto step = steps_.begin(); step != steps_.end(); ++step) {
        if (step->kind == Kind::Probes)
            continue;
        unsigned &calm = calm_[key_of(*step)];
        calm = is_calm(*step, now, parts) ? std::min(calm + 1, calm_measurements) : 0;
        const bool covered = step->kind == Kind::HistoryToSizes && std::ranges::any_of(steps_, [&](const auto &other) {
                                 return other.kind == Kind::SizesToPages && other.subject == step->subject;
                             });
        if (calm == calm_measurements && step->retry_ns <= now.t_ns && !covered)
            which = step;
    }
    if (which == steps_.end())
        return false;
    undo(which, now, changes);
    return true;
}

// The latest of those for all rules; one that was too much by itself when its own wait is over.
bool Governor::undo_probes(const CostMeasurement &now, Changes &changes) {
    rules_calm_ =
        of_rules(now) / now.cpus < calm_share * *budget_.share ? std::min(rules_calm_ + 1, calm_measurements) : 0;
    if (rules_calm_ < calm_measurements)
        return false;
    const auto due = [&](const CostStep &step) { return step.kind == Kind::Probes && step.retry_ns <= now.t_ns; };
    const auto latest = std::find_if(steps_.rbegin(), steps_.rend(),
                                     [](const CostStep &step) { return step.kind == Kind::Probes && !step.by_itself; });
    auto which = latest != steps_.rend() && due(*latest) ? std::prev(latest.base()) : steps_.end();
    if (which == steps_.end())
        which = std::ranges::find_if(steps_, [&](const CostStep &step) { return step.by_itself && due(step); });
    if (which == steps_.end())
        return false;
    undo(which, now, changes);
    return true;
}

void Governor::undo(std::vector<CostStep>::iterator which, const CostMeasurement &now, Changes &changes) {
    waited_[key_of(*which)].undone_ns = now.t_ns;
    changes.push_back({*which, Change::What::Undone});
    steps_.erase(which);
    rules_calm_ = 0;
    calm_.clear();
}

} // namespace incident::daemon
