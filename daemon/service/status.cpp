#include "daemon/service/status.h"

#include "daemon/os/clocks.h"
#include "daemon/record/event_queue.h"

#include <fmt/chrono.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace incident::daemon {

namespace {

std::uint64_t own_rss_bytes() {
    std::ifstream statm("/proc/self/statm");
    std::uint64_t size = 0, resident = 0;
    statm >> size >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

nlohmann::ordered_json rules_of(const StatusInput &input) {
    const rules::Engine &engine = input.engine;
    auto all = nlohmann::ordered_json::array();
    for (const auto &rule : engine.rules()) {
        const auto counters = engine.counters(rule.name);
        const auto state = state_of(rule, input.recorder.families(), input.conditions);
        all.push_back({{"name", rule.name},
                       {"kind", rule.kind},
                       {"source", fmt::format("{}:{}", rule.at.file, rule.at.line)},
                       {"state", state.state},
                       {"reason", state.reason},
                       {"matched", counters.matched},
                       {"fired", counters.fired},
                       {"suppressed", counters.suppressed},
                       {"cost", rule_cost_json(rule, state, input.costs)}});
    }
    return all;
}

const char *watching(const rules::Engine &engine) {
    if (engine.watches_everything())
        return "all";
    for (const auto &rule : engine.rules())
        if (rule.enabled)
            return "matching";
    return "none";
}

// "1 unavailable (txg-stall)"; of many names the first.
std::string group_text(const std::vector<std::string_view> &names, std::string_view state) {
    constexpr std::size_t names_shown = 5;
    const std::size_t shown = std::min(names.size(), names_shown);
    return fmt::format("{} {} ({}{})", names.size(), state, fmt::join(names.begin(), names.begin() + shown, ", "),
                       shown < names.size() ? ", …" : "");
}

} // namespace

std::string utc_text(std::int64_t seconds) {
    return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(seconds)));
}

std::vector<capture::Loss> lost_incidents(const IncidentCounters &counters) {
    std::vector<capture::Loss> losses;
    losses.reserve(counters.failed_because.size());
    for (const auto &[reason, count] : counters.failed_because)
        losses.push_back({"incidents", "not written: " + reason, count});
    return losses;
}

std::string status_line(const StatusLineInput &input) {
    std::map<std::string, std::vector<std::string_view>> by_state;
    for (const auto &rule : input.engine.rules())
        by_state[state_of(rule, input.families, input.conditions).state].push_back(rule.name);
    std::string line = fmt::format("Recording: {} rules active", by_state["active"].size());
    for (const char *state : {"degraded", "unavailable"})
        if (const auto &names = by_state[state]; !names.empty())
            line += ", " + group_text(names, state);
    line += fmt::format("; {} incidents", input.incidents.committed);
    if (input.pending)
        line += fmt::format(", {} under way", input.pending);
    if (input.incidents.failed)
        line += fmt::format(", {} lost", input.incidents.failed);
    if (input.cost_steps)
        line += fmt::format("; {} left out for the cost budget: incidentctl status", input.cost_steps);
    if (input.cost_beyond_steps)
        line += "; over the cost budget";
    if (input.reload_refused)
        line += "; the last reload was refused, the rules are those of before";
    else if (input.complaints)
        line += fmt::format("; {} complaints about rule files: incidentctl status", input.complaints);
    return line;
}

std::string status_json(const StatusInput &input) {
    const auto use = input.recorder.use();
    const IncidentCounters &incidents = input.delivery.counters();
    const std::string started = utc_text(static_cast<std::int64_t>(input.started_realtime_ns / 1'000'000'000));
    nlohmann::ordered_json status = {
        {"version", INCIDENTD_VERSION},
        {"pid", ::getpid()},
        {"started", started},
        {"gap", nullptr},
        {"uptime_s", input.uptime_ns / 1'000'000'000},
        {"state", "running"},
        {"state_directory", input.state},
        {"config", input.config},
        {"rule_directories", input.rule_directories},
        {"rules", rules_of(input)},
        {"rule_errors", input.rule_errors},
        {"recorder",
         {{"threads_used", use.threads_used},
          {"threads_max", use.threads_max},
          {"processes_used", input.recorder.processes().size()},
          {"processes_max", use.processes_max},
          {"calls_bytes", use.calls_bytes},
          {"calls_bytes_used", use.calls_bytes_used},
          {"memory_bytes", use.memory_bytes},
          {"durations", input.recorder.entries_recorded()},
          {"watching", watching(input.engine)}}},
        {"probes", nlohmann::ordered_json::array()},
        {"losses", nlohmann::ordered_json::array()},
        {"incidents",
         {{"committed", incidents.committed},
          {"pending", input.pending},
          {"failed", incidents.failed},
          {"suppressed", input.assemblies.suppressed},
          {"counted", incidents.counted},
          {"joined", input.assemblies.joined},
          {"recovered", incidents.recovered},
          {"removed", incidents.removed}}},
    };
    input.delivery.add_status(status);
    input.watches.each([&](const Watch &watch) { watch.add_status(status); });
    status["self"] = {{"rss_bytes", own_rss_bytes()}, {"cpu_ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID)}};
    status["cost"] = cost_json(input.costs, own_rss_bytes());
    if (input.before)
        status["gap"] = {{"pid", input.before->pid},
                         {"stopped", input.before->stopped},
                         {"from", utc_text(input.before->seen_s)},
                         {"until", started}};
    for (const auto &probe : input.recorder.probes())
        status["probes"].push_back({{"name", probe.name},
                                    {"state", probe.state},
                                    {"reason", probe.reason},
                                    {"missed", probe.missed},
                                    {"runs", probe.runs},
                                    {"run_ns", probe.run_ns}});
    const auto recording = input.costs.meter.of({"record_enter", "record_exit"}),
               returns = input.costs.meter.of({"record_exit"});
    if (recording && returns && returns->runs_per_second > 0)
        status["recorder"]["cost"] = {
            {"ns_per_syscall", static_cast<std::uint64_t>(recording->cpu_share * 1e9 / returns->runs_per_second)},
            {"syscalls_per_second", static_cast<std::uint64_t>(returns->runs_per_second)},
            {"cpu_share", recording->cpu_share}};
    auto losses = describe_losses(input.recorder.loss_counts(), {}, false);
    std::ranges::move(describe_refused(input.recorder.shares()), std::back_inserter(losses));
    std::ranges::move(lost_incidents(incidents), std::back_inserter(losses));
    if (input.dropped_events)
        losses.push_back(dropped_events(input.dropped_events));
    for (const auto &loss : losses)
        status["losses"].push_back({{"where", loss.where}, {"reason", loss.reason}, {"count", loss.count}});
    if (input.assemblies.outdated)
        status["losses"].push_back({{"where", "triggers of rules that are no more"},
                                    {"reason", "a reload had changed or removed the rule before they were read"},
                                    {"count", input.assemblies.outdated}});
    if (input.assemblies.unknown)
        status["losses"].push_back(
            {{"where", "triggers of processes that were not known"},
             {"reason", "they had ended before they were looked at, so it is not known whether rules are about them"},
             {"count", input.assemblies.unknown}});
    return status.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace incident::daemon
