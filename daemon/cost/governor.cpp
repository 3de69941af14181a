#include "daemon/cost/governor.h"

#include <algorithm>

namespace incident::daemon {

namespace {

using Kind = CostStep::Kind;
using Heap = CostMeasurement::Heap;

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

CostStep step_of(const CostMeasurement::Durations &durations) {
    return {.kind = Kind::Durations, .share = durations.share, .calls_per_second = durations.calls_per_second};
}

const Heap *heap_of(const CostMeasurement &now, const CostStep &step) {
    const auto found =
        std::ranges::find_if(now.heaps, [&](const Heap &heap) { return std::to_string(heap.pid) == step.subject; });
    return found == now.heaps.end() ? nullptr : &*found;
}

bool is_moot(const CostStep &step, const CostMeasurement &now) {
    switch (step.kind) {
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
    at_the_end_ = false;
    bool taken = false;
    if (now.total() - saved / now.cpus > *budget_.share) {
        calm_ = 0;
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
    if (changes.empty() && !undo(now, changes))
        undo_probes(now, changes);
    return changes;
}

void Governor::forget(const std::function<bool(const CostStep &)> &is_another_now) {
    std::erase_if(steps_, [&](const CostStep &step) {
        if (!is_another_now(step))
            return false;
        waited_.erase(key_of(step));
        return true;
    });
}

void Governor::drop_moot(const CostMeasurement &now, Changes &changes) {
    std::erase_if(steps_, [&](const CostStep &step) {
        if (!is_moot(step, now))
            return false;
        changes.push_back({step, Change::What::Moot});
        waited_.erase(key_of(step));
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
    const double least = least_saving * *budget_.share * now.cpus;
    for (const auto level : {rules::Allocations::History, rules::Allocations::Sizes}) {
        const Heap *costliest = nullptr;
        for (const Heap &heap : now.heaps) // by all it takes: the way to "pages" is by "sizes"
            if (heap.level == level && heap.share >= least && (!costliest || heap.share > costliest->share))
                costliest = &heap;
        if (costliest)
            return step_of(*costliest);
    }
    const bool measured = std::ranges::find(steps_, Kind::Durations, &CostStep::kind) == steps_.end();
    if (now.durations.can_be_left_out && measured && now.durations.share >= least)
        return step_of(now.durations);
    return std::nullopt;
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
    changes.push_back({*which, Change::What::Undone});
    steps_.erase(which);
    calm_ = rules_calm_ = 0;
}

} // namespace incident::daemon
