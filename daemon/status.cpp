#include "daemon/status.h"

#include "daemon/clocks.h"

#include <fmt/chrono.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <fstream>

namespace incident::daemon {

namespace {

std::uint64_t own_rss_bytes() {
    std::ifstream statm("/proc/self/statm");
    std::uint64_t size = 0, resident = 0;
    statm >> size >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

nlohmann::ordered_json rules_of(const rules::Engine &engine) {
    auto all = nlohmann::ordered_json::array();
    for (const auto &rule : engine.rules()) {
        const auto counters = engine.counters(rule.name);
        all.push_back({{"name", rule.name},
                       {"kind", rule.kind},
                       {"source", fmt::format("{}:{}", rule.at.file, rule.at.line)},
                       {"state", rule.enabled ? "active" : "disabled"},
                       {"reason", rule.enabled ? "" : "enabled = false"},
                       {"fired", counters.fired},
                       {"suppressed", counters.suppressed}});
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

} // namespace

std::string status_json(const StatusInput &input) {
    const auto use = input.recorder.use();
    const auto started =
        std::chrono::system_clock::time_point(std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::nanoseconds(input.started_realtime_ns)));
    nlohmann::ordered_json status = {
        {"version", INCIDENTD_VERSION},
        {"pid", ::getpid()},
        {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(started)))},
        {"uptime_s", input.uptime_ns / 1'000'000'000},
        {"state", input.state},
        {"rules", rules_of(input.engine)},
        {"rule_errors", input.rule_errors},
        {"recorder",
         {{"threads_used", use.threads_used},
          {"threads_max", use.threads_max},
          {"processes_used", input.recorder.processes().size()},
          {"processes_max", use.processes_max},
          {"syscalls_per_thread", use.syscalls_per_thread},
          {"memory_bytes", use.memory_bytes},
          {"watching", watching(input.engine)}}},
        {"probes", nlohmann::ordered_json::array()},
        {"losses", nlohmann::ordered_json::array()},
        {"incidents",
         {{"committed", input.incidents.committed},
          {"pending", input.pending},
          {"failed", input.incidents.failed},
          {"suppressed", input.suppressed},
          {"recovered", input.incidents.recovered}}},
        {"self", {{"rss_bytes", own_rss_bytes()}, {"cpu_ns", clock_ns(CLOCK_PROCESS_CPUTIME_ID)}}},
    };
    for (const auto &probe : input.recorder.probes())
        status["probes"].push_back(
            {{"name", probe.name}, {"state", probe.state}, {"reason", probe.reason}, {"missed", probe.missed}});
    for (const auto &loss : describe_losses(input.recorder.loss_counts(), {}, false))
        status["losses"].push_back({{"where", loss.where}, {"reason", loss.reason}, {"count", loss.count}});
    return status.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

} // namespace incident::daemon
