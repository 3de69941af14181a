#include "daemon/cost_loads.h"

#include "daemon/clocks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace incident::daemon {

namespace {

constexpr const char *entries_program = "record_enter", *returns_program = "record_exit";

Cost cost_of(const CostMeter &costs, const std::string &program) {
    const auto found = costs.costs().find(program);
    return found == costs.costs().end() ? Cost{} : found->second;
}

double share_of(const std::optional<HeapPrice> &price, double allocations, double frees) {
    if (!price)
        return 0;
    return (allocations * static_cast<double>(price->allocation_ns) + frees * static_cast<double>(price->free_ns)) /
           1e9;
}

std::string condition_key(const std::string &rule, std::size_t condition) {
    return fmt::format("{}:{}", rule, condition);
}

// The kinds whose programs may be detached, with the bits of their conditions.  Not "exit", "oom" and "signal".
struct Kind {
    const char *name;
    std::uint64_t TriggerPlan::*bits;
};
constexpr Kind kinds[] = {{"syscall", &TriggerPlan::syscall},
                          {"blocked", &TriggerPlan::blocked},
                          {"reclaim", &TriggerPlan::reclaim},
                          {"block_io", &TriggerPlan::block_io}};

} // namespace

void CostLoads::begin(const CostSources &sources, std::uint64_t now_ns) {
    began_ns_ = now_ns;
    heaps_.clear();
    for (const auto &heap : sources.heaps.loads())
        heaps_[heap.pid] = heap.now;
    calls_.clear();
    for (const auto &probe : sources.latency.loads())
        calls_[probe.key] = probe.calls;
    tracepoints_.end();
    if (sources.plan.tracepoints.size() > 1) // one alone has all the hits
        for (const auto &tracepoint : sources.plan.tracepoints)
            tracepoints_.begin(tracepoint.category, tracepoint.name);
}

CostMeasurement CostLoads::end(const CostSources &sources, std::uint64_t now_ns) {
    CostMeasurement measured;
    measured.t_ns = now_ns;
    measured.cpus = static_cast<unsigned>(std::max(1l, ::sysconf(_SC_NPROCESSORS_ONLN)));
    for (const auto &[program, cost] : sources.costs.costs())
        measured.programs += cost.cpu_share;
    // Since the last measurement, for it works in bursts; the start is not counted.
    const std::uint64_t own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (own_at_ns_)
        measured.daemon = static_cast<double>(own_ns - own_ns_) / static_cast<double>(now_ns - own_at_ns_);
    own_ns_ = own_ns;
    own_at_ns_ = now_ns;
    const double seconds = static_cast<double>(now_ns - began_ns_) / 1e9;
    add_heaps(sources, seconds, measured);
    add_latency(sources, seconds, measured);
    add_families(sources, measured);
    add_tracepoints(sources, measured);
    add_durations(sources, measured);
    tracepoints_.end();
    return measured;
}

// At the price measured on this machine, the kernel's traps included.  History is never cheaper than sizes, though
// the two measurements, disturbed by whatever else ran, may say so.
void CostLoads::add_heaps(const CostSources &sources, double seconds, CostMeasurement &measured) const {
    const auto sizes = sources.heaps.price(rules::Allocations::Sizes),
               history = sources.heaps.price(rules::Allocations::History);
    for (const auto &heap : sources.heaps.loads()) {
        CostMeasurement::Heap line{.pid = heap.pid, .comm = heap.comm, .asked = heap.asked, .level = heap.now.level};
        const auto before = heaps_.find(heap.pid);
        const bool same = before != heaps_.end() && heap.now.allocations >= before->second.allocations &&
                          heap.now.frees >= before->second.frees;
        if (same) {
            const double allocations = static_cast<double>(heap.now.allocations - before->second.allocations) / seconds,
                         frees = static_cast<double>(heap.now.frees - before->second.frees) / seconds;
            const double at_sizes = share_of(sizes, allocations, frees),
                         more = std::max(0.0, share_of(history, allocations, frees) - at_sizes);
            const bool keeps_history = line.level == rules::Allocations::History;
            line.calls_per_second = allocations + frees;
            line.share = keeps_history ? at_sizes + more : at_sizes;
            line.lower_saves = keeps_history ? more : at_sizes;
            line.higher_adds = !keeps_history && heap.asked == rules::Allocations::History ? more : 0;
        }
        measured.programs += line.share;
        measured.heaps.push_back(std::move(line));
    }
}

// What the programs of functions, and those of pairs, took is theirs by their calls; the kernel's traps come on top.
void CostLoads::add_latency(const CostSources &sources, double seconds, CostMeasurement &measured) const {
    const auto share_of = [&](std::initializer_list<const char *> programs) {
        double share = 0;
        for (const char *program : programs)
            share += cost_of(sources.costs, program).cpu_share;
        return share;
    };
    const double functions =
                     share_of({"enter_call", "leave_call", "enter_keyed", "leave_keyed", "unwind_lands", "long_jump"}),
                 pairs = share_of({"enter_pair", "leave_pair"});
    const auto loads = sources.latency.loads();
    const auto is_pair = [](const LatencyProbes::Load &load) { return load.users.front()->leave.has_value(); };
    const auto calls_of = [&](const LatencyProbes::Load &load) {
        const auto before = calls_.find(load.key);
        return before == calls_.end() ? 0.0 : static_cast<double>(load.calls - std::min(load.calls, before->second));
    };
    double calls[2] = {};
    for (const auto &load : loads)
        if (!load.users.empty())
            calls[is_pair(load)] += calls_of(load);
    for (const auto &load : loads) {
        if (load.users.empty())
            continue;
        const bool pair = is_pair(load);
        CostMeasurement::Probes line{.key = "latency:" + load.key, .name = load.users.front()->enter.text};
        for (const WantedProbe *user : load.users)
            line.conditions.push_back(condition_key(user->rule, user->condition));
        line.attached = load.attached;
        if (calls[pair] > 0) {
            line.share = (pair ? pairs : functions) * calls_of(load) / calls[pair];
            line.calls_per_second = calls_of(load) / seconds;
            const double traps = line.calls_per_second * static_cast<double>(load.trap_ns) / 1e9;
            line.share += traps;
            measured.programs += traps;
        }
        measured.probes.push_back(std::move(line));
    }
}

// A program that several kinds need is shared among them.
void CostLoads::add_families(const CostSources &sources, CostMeasurement &measured) const {
    const auto &families = sources.recorder.families();
    const auto attached = [&](const Kind &kind) {
        const auto family = families.find(kind.name);
        return sources.plan.*kind.bits && family != families.end() && family->second.attached;
    };
    std::map<std::string, double> users;
    for (const Kind &kind : kinds)
        if (attached(kind))
            for (const auto &program : Recorder::programs_of(kind.name))
                users[program] += 1;
    for (const Kind &kind : kinds) {
        const bool on = attached(kind);
        if (!on && !(sources.plan.*kind.bits && sources.left_out.contains(kind.name)))
            continue;
        CostMeasurement::Probes line{.key = kind.name, .name = fmt::format("programs of {} rules", kind.name)};
        for (const auto &assigned : sources.plan.assigned)
            if (sources.plan.*kind.bits >> assigned.bit & 1)
                line.conditions.push_back(condition_key(assigned.rule, assigned.condition));
        line.attached = on;
        for (const auto &program : on ? Recorder::programs_of(kind.name) : std::vector<std::string>{}) {
            const Cost cost = cost_of(sources.costs, program);
            line.share += cost.cpu_share / users[program];
            line.calls_per_second += cost.runs_per_second / users[program];
        }
        measured.probes.push_back(std::move(line));
    }
}

void CostLoads::add_tracepoints(const CostSources &sources, CostMeasurement &measured) const {
    const Cost all = cost_of(sources.costs, "tracepoint_hit");
    const auto &families = sources.recorder.families();
    std::vector<std::pair<CostMeasurement::Probes, double>> lines; // and hits
    double hits = 0;
    for (const auto &tracepoint : sources.plan.tracepoints) {
        const std::string condition = condition_key(tracepoint.rule, tracepoint.condition),
                          key = "tracepoint:" + condition;
        const auto family = families.find(key);
        const bool on = family != families.end() && family->second.attached;
        if (!on && !sources.left_out.contains(key))
            continue;
        CostMeasurement::Probes line{
            .key = key,
            .name = fmt::format("tracepoint {}:{} of rule {}", tracepoint.category, tracepoint.name, tracepoint.rule),
            .conditions = {condition},
            .attached = on};
        const bool alone = sources.plan.tracepoints.size() == 1;
        const double own = !on     ? 0
                           : alone ? 1
                                   : static_cast<double>(tracepoints_.hits(tracepoint.category, tracepoint.name));
        hits += own;
        lines.emplace_back(std::move(line), own);
    }
    for (auto &[line, own] : lines) {
        line.share = hits > 0 ? all.cpu_share * own / hits : 0;
        line.calls_per_second = hits > 0 ? all.runs_per_second * own / hits : 0;
        measured.probes.push_back(std::move(line));
    }
}

void CostLoads::add_durations(const CostSources &sources, CostMeasurement &measured) {
    const Cost entries = cost_of(sources.costs, entries_program), returns = cost_of(sources.costs, returns_program);
    const bool on = sources.recorder.entries_recorded();
    if (on && entries.ns_per_run > 0)
        ns_per_entry_ = entries.ns_per_run;
    measured.durations = {.can_be_left_out = sources.durations_can_be_left_out,
                          .share = on ? entries.cpu_share : returns.runs_per_second * ns_per_entry_ / 1e9,
                          .calls_per_second = returns.runs_per_second};
}

} // namespace incident::daemon
