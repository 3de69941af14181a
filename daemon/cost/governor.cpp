#include "daemon/cost/governor.h"

#include <algorithm>
#include <vector>

namespace incident::daemon {

namespace {

using Kind = CostStep::Kind;
using Heap = CostMeasurement::Heap;
using Process = CostMeasurement::Process;

std::string key_of(const CostStep &step) {
    return std::to_string(static_cast<int>(step.kind)) + step.subject;
}

CostStep step_of(const Heap &heap) {
    const std::string pid = std::to_string(heap.pid);
    return {.kind = heap.level == rules::Allocations::History ? Kind::HistoryToSizes : Kind::SizesToPages,
            .subject = pid,
            .name = "pid " + pid + " (" + heap.comm + ")",
            .share = heap.lower_saves,
            .calls_per_second = heap.calls_per_second};
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

CostStep step_of(const Process &of) {
    const std::string pid = std::to_string(of.process.pid);
    return {.kind = Kind::DurationsOfProcess,
            .subject = pid,
            .name = "pid " + pid + " (" + of.comm + ")",
            .process = of.process,
            .share = of.durations,
            .calls_per_second = of.calls_per_second};
}

CostStep step_of(const CostMeasurement::Durations &durations) {
    return {.kind = Kind::Durations, .share = durations.share, .calls_per_second = durations.calls_per_second};
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
    case Kind::DurationsOfProcess:
        return !now.durations.can_be_left_out || !process_of(now, step);
    case Kind::Durations:
        return !now.durations.can_be_left_out;
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
    if (step.kind == Kind::Durations)
        return now.durations.share;
    if (step.kind == Kind::DurationsOfProcess) {
        const Process *process = process_of(now, step);
        return process ? process->durations : 0;
    }
    const Heap *heap = step.kind == Kind::HistoryToSizes ? heap_of(now, step) : nullptr;
    return heap ? heap->higher_adds : 0;
}

// What each may take, if who takes less leaves the rest of his part to the others; nullopt: all may have what they
// take.
std::optional<double> fair_part(const std::map<std::uint32_t, double> &shares, double budget) {
    std::vector<double> sorted;
    sorted.reserve(shares.size());
    for (const auto &[pid, share] : shares)
        sorted.push_back(share);
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        const double part = budget / static_cast<double>(sorted.size() - i);
        if (sorted[i] > part)
            return part;
        budget -= sorted[i];
    }
    return std::nullopt;
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
    at_the_end_ = false;
    bool taken = false;
    over_ = now.total() - saved / now.cpus > *budget_.share ? over_ + 1 : 0;
    if (over_)
        calm_ = 0;
    if (over_ && over_ >= budget_.over_before_a_step) {
        if (auto step = next_step(now)) {
            take(std::move(*step), now, changes);
            taken = true;
        }
        at_the_end_ = !taken;
    }
    if ((of_rules(now) - saved) / now.cpus > *budget_.share) {
        rules_calm_ = 0;
        if (auto step = taken ? std::nullopt : next_probes(now)) {
            take(std::move(*step), now, changes);
            at_the_end_ = false;
        }
    }
    // What has just changed shows in the next measurement.
    if (changes.empty() && !undo_idle(now, changes) && !undo(now, changes))
        undo_probes(now, changes);
    return changes;
}

void Governor::forget(const std::function<bool(const CostStep &)> &is_another_now) {
    std::erase_if(steps_, [&](const CostStep &step) {
        if (!is_another_now(step))
            return false;
        waited_.erase(key_of(step));
        idle_.erase(key_of(step));
        return true;
    });
}

void Governor::drop_moot(const CostMeasurement &now, Changes &changes) {
    std::erase_if(steps_, [&](const CostStep &step) {
        if (!is_moot(step, now))
            return false;
        changes.push_back({step, Change::What::Moot});
        waited_.erase(key_of(step));
        idle_.erase(key_of(step));
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

std::optional<CostStep> Governor::next_step(const CostMeasurement &now) const {
    std::map<std::uint32_t, double> shares; // by pid
    for (const Process &process : now.processes)
        shares[process.process.pid] += process.share;
    for (const Heap &heap : now.heaps)
        shares[heap.pid] += heap.share;
    const auto fair = fair_part(shares, *budget_.share * now.cpus);
    if (!fair)
        return std::nullopt;
    if (auto step = step_of_costliest(now, shares, *fair))
        return step;
    const bool measured = std::ranges::find(steps_, Kind::Durations, &CostStep::kind) == steps_.end();
    double of_many = 0;
    for (const Process &process : now.processes)
        of_many += process.timed ? process.durations : 0;
    if (now.durations.can_be_left_out && measured && of_many >= many_share * *budget_.share * now.cpus)
        return step_of(now.durations);
    return std::nullopt;
}

// Of the process that costs most, by its calls and its heap, the step that its incident would miss least; if it has
// none left, of the next.  A process within its fair part gives nothing: others are the cause.
std::optional<CostStep> Governor::step_of_costliest(const CostMeasurement &now,
                                                    const std::map<std::uint32_t, double> &shares, double fair) const {
    const double least = least_saving * *budget_.share * now.cpus;
    std::optional<CostStep> found;
    double most = fair;
    const auto consider = [&](std::uint32_t pid, const auto &of) {
        if (shares.at(pid) <= most)
            return;
        most = shares.at(pid);
        found = step_of(of);
    };
    for (const Process &process : now.processes)
        if (now.durations.can_be_left_out && process.timed && process.durations >= least)
            consider(process.process.pid, process);
    for (const Heap &heap : now.heaps) // by all it takes: the way to "pages" is by "sizes"
        if (heap.level != rules::Allocations::Pages && heap.share >= least)
            consider(heap.pid, heap);
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
    calm_ = rules_calm_ = 0;
}

// What is left out of a process that no longer costs anything is of no use to anybody.
bool Governor::undo_idle(const CostMeasurement &now, Changes &changes) {
    const double least = least_saving * *budget_.share * now.cpus;
    auto which = steps_.end();
    for (auto step = steps_.begin(); step != steps_.end(); ++step) {
        if (step->kind != Kind::DurationsOfProcess)
            continue;
        unsigned &idle = idle_[key_of(*step)];
        idle = undone_adds(*step, now) < least / 2 ? std::min(idle + 1, calm_measurements) : 0;
        if (idle == calm_measurements && step->retry_ns <= now.t_ns && which == steps_.end())
            which = step;
    }
    if (which == steps_.end())
        return false;
    undo(which, now, changes);
    return true;
}

// The latest of those for the total.
bool Governor::undo(const CostMeasurement &now, Changes &changes) {
    const auto latest =
        std::find_if(steps_.rbegin(), steps_.rend(), [](const CostStep &step) { return step.kind != Kind::Probes; });
    const double adds = latest != steps_.rend() ? undone_adds(*latest, now) / now.cpus : 0;
    calm_ = now.total() + adds < calm_share * *budget_.share ? std::min(calm_ + 1, calm_measurements) : 0;
    if (calm_ < calm_measurements || latest == steps_.rend() || latest->retry_ns > now.t_ns)
        return false;
    undo(std::prev(latest.base()), now, changes);
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
    idle_.erase(key_of(*which));
    changes.push_back({*which, Change::What::Undone});
    steps_.erase(which);
    calm_ = rules_calm_ = 0;
}

} // namespace incident::daemon
