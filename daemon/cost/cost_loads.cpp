#include "daemon/cost/cost_loads.h"

#include "daemon/os/clocks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>

namespace incident::daemon {

namespace {

constexpr const char *entries_program = "record_enter", *returns_program = "record_exit";

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

std::string condition_key(std::string_view rule, std::size_t condition) {
    return fmt::format("{}:{}", rule, condition);
}

std::vector<std::string> conditions_of_bit(const TriggerPlan &plan, unsigned bit) {
    std::vector<std::string> conditions;
    for (const auto &assigned : plan.assigned)
        if (assigned.bit == bit)
            conditions.push_back(condition_key(assigned.rule, assigned.condition));
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

void CostLoads::begin(const Recorder &recorder, std::uint64_t now_ns) {
    calls_ = recorder.calls_by_process();
    began_ns_ = now_ns;
}

CostMeasurement CostLoads::measure(const CostSources &sources, std::uint64_t now_ns) {
    CostMeasurement measured;
    measured.t_ns = now_ns;
    measured.cpus = static_cast<unsigned>(std::max(1l, ::sysconf(_SC_NPROCESSORS_ONLN)));
    for (const auto &[program, cost] : sources.meter.costs())
        measured.programs += cost.cpu_share;
    // Since the last measurement, for it works in bursts; the start is not counted.
    const std::uint64_t own_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    if (own_at_ns_)
        measured.daemon = static_cast<double>(own_ns - own_ns_) / static_cast<double>(now_ns - own_at_ns_);
    own_ns_ = own_ns;
    own_at_ns_ = now_ns;
    add_conditions(sources, measured);
    add_durations(sources, measured);
    add_processes(sources, measured);
    return measured;
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
                parts.emplace(program, sources.meter.own(program));
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
    const Cost entries = sources.meter.of_program(entries_program);
    // Of an untimed process an entry costs less, which says nothing about what it would cost timed.
    if (entries.ns_per_run > 0 && (sources.untimed.empty() || ns_per_entry_ == 0))
        ns_per_entry_ = entries.ns_per_run;
    measured.durations = {.can_be_left_out = sources.durations_can_be_left_out, .share = entries.cpu_share};
}

// By how many calls each has made meanwhile.  A call is taken to cost what the mean of all costs, so where rules are
// about few, and others make most calls, it is rather said to cost too little.
void CostLoads::add_processes(const CostSources &sources, CostMeasurement &measured) const {
    const double seconds = static_cast<double>(measured.t_ns - began_ns_) / 1e9;
    if (seconds <= 0)
        return;
    const double ns_per_return = sources.meter.of_program(returns_program).ns_per_run;
    for (const auto &[process, now] : sources.recorder.calls_by_process()) {
        const auto before = calls_.find(process); // if not there, it has been recorded since then
        CostMeasurement::Process line{
            .process = process, .comm = now.comm, .user = now.share, .timed = !sources.untimed.contains(process)};
        const std::uint64_t calls =
            now.calls - (before == calls_.end() ? 0 : std::min(now.calls, before->second.calls));
        line.calls_per_second = static_cast<double>(calls) / seconds;
        line.durations = line.calls_per_second * ns_per_entry_ / 1e9;
        line.share = line.calls_per_second * ns_per_return / 1e9;
        if (line.timed && sources.recorder.entries_recorded())
            line.share += line.durations;
        measured.processes.push_back(std::move(line));
    }
    std::ranges::stable_sort(measured.processes, std::ranges::greater(), &CostMeasurement::Process::share);
}

} // namespace incident::daemon
