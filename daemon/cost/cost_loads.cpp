#include "daemon/cost/cost_loads.h"

#include "daemon/os/clocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
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

// The kinds whose conditions may be left out, with their bits.  Not "exit", "oom" and "signal".
struct LoadKind {
    const char *name;
    std::uint64_t TriggerPlan::*bits;
};
constexpr LoadKind kinds[] = {{"syscall", &TriggerPlan::syscall},
                              {"blocked", &TriggerPlan::blocked},
                              {"reclaim", &TriggerPlan::reclaim},
                              {"block_io", &TriggerPlan::block_io},
                              {"tracepoint", &TriggerPlan::tracepoint}};

// "programs of syscall rule slow-open", "tracepoint sched:sched_switch of rule x"
std::string name_of(const LoadKind &kind, const TriggerPlan &plan, unsigned bit,
                    const std::vector<std::string> &conditions) {
    std::set<std::string> names;
    for (const auto &assigned : plan.assigned)
        if (assigned.bit == bit)
            names.insert(assigned.rule);
    for (const auto &tracepoint : plan.tracepoints)
        if (tracepoint.bit == bit && conditions.size() == 1)
            return fmt::format("tracepoint {}:{} of rule {}", tracepoint.category, tracepoint.name, tracepoint.rule);
    return fmt::format("programs of {} rule{} {}", kind.name, names.size() > 1 ? "s" : "", fmt::join(names, ", "));
}

} // namespace

std::vector<std::string> conditions_of_bit(const TriggerPlan &plan, unsigned bit) {
    std::vector<std::string> conditions;
    for (const auto &assigned : plan.assigned)
        if (assigned.bit == bit)
            conditions.push_back(condition_key(assigned.rule, assigned.condition));
    return conditions;
}

std::vector<std::string> conditions_of(const LatencyProbes::Load &load) {
    std::vector<std::string> conditions;
    conditions.reserve(load.users.size());
    for (const WantedProbe *user : load.users)
        conditions.push_back(condition_key(user->rule, user->condition));
    return conditions;
}

std::string asked_by(const std::vector<std::string> &conditions, std::span<const rules::Rule> rules) {
    std::string asked;
    for (const std::string &condition : conditions) {
        const auto rule = std::ranges::find(rules, condition.substr(0, condition.rfind(':')), &rules::Rule::name);
        asked += condition + '\n' + (rule == rules.end() ? "" : rule->text) + '\n';
    }
    return asked;
}

void CostLoads::begin(const CostSources &sources, std::uint64_t now_ns) {
    began_ns_ = now_ns;
    heaps_.clear();
    for (const auto &heap : sources.heaps.loads())
        heaps_[heap.pid] = heap.now;
    calls_.clear();
    for (const auto &probe : sources.latency.loads())
        calls_[probe.key] = probe.calls;
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
    add_conditions(sources, measured);
    add_durations(sources, measured);
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
        CostMeasurement::Probes line{.key = std::string(latency_prefix) + load.key,
                                     .name = load.users.front()->enter.text,
                                     .conditions = conditions_of(load),
                                     .attached = load.attached};
        line.asked = asked_by(line.conditions, sources.rules);
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

// Each condition pays what its programs took for the processes it is about; a run that served several is shared among
// them.  What they took for all others is nobody's.
void CostLoads::add_conditions(const CostSources &sources, CostMeasurement &measured) const {
    std::map<std::string, OwnPart> parts; // by program, once for all kinds
    for (const LoadKind &kind : kinds) {
        const std::uint64_t bits = sources.plan.*kind.bits;
        const auto programs = Recorder::programs_of(kind.name);
        for (const auto &program : programs)
            if (bits && !parts.contains(program))
                parts.emplace(program, sources.costs.own(program));
        for (unsigned bit = 0; bit < RULE_BITS; ++bit) {
            if (!(bits >> bit & 1))
                continue;
            CostMeasurement::Probes line;
            line.conditions = conditions_of_bit(sources.plan, bit);
            if (line.conditions.empty())
                continue;
            line.key = fmt::format("{} {}", kind.name, line.conditions.front());
            line.name = name_of(kind, sources.plan, bit, line.conditions);
            line.attached = !sources.recorder.left_out().contains(line.conditions.front());
            line.asked = asked_by(line.conditions, sources.rules);
            for (const auto &program : programs) {
                const Cost &own = parts.at(program).by_bit[bit];
                line.share += own.cpu_share;
                line.calls_per_second += own.runs_per_second;
            }
            measured.probes.push_back(std::move(line));
        }
    }
    for (const auto &[program, part] : parts) {
        measured.strangers.share += part.strangers.cpu_share;
        measured.strangers.calls_per_second += part.strangers.runs_per_second;
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
