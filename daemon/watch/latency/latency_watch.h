// The watch of latency rules: says which probes they want, reports the slow calls that the kernel side and the scanner
// find, and shows the state of the probes.
#pragma once

#include "daemon/watch/latency/latency_probes.h"
#include "daemon/watch/watch.h"

#include <deque>
#include <map>
#include <set>

namespace incident::daemon {

class LatencyWatch : public Watch {
public:
    explicit LatencyWatch(const WatchContext &context);

    // The kernel side reports every process that the rules are about again (EVENT_STARTED), because each thread is
    // decided about again for a new generation of rules.
    void apply(std::uint64_t now_ns) override;
    void describe(ConditionStates &states) const override;
    // Reports calls that have passed a deadline and are still running.
    std::uint64_t poll(std::uint64_t now_ns) override;
    bool tend(std::uint64_t now_ns) override;
    // Takes events about slow calls that have ended, and about processes whose dynamic loader has mapped code.
    std::optional<bool> take(const bpf::event_header &header, std::span<const std::uint8_t> bytes) override;
    void started(const rules::ProcessFacts &process) override;

    void prepare_measurement() override { probes_.measure_traps(); }
    void begin_measurement() override;
    void end_measurement(const CostMeter &meter, double seconds, CostMeasurement &measured) const override;
    std::optional<std::vector<std::string>> conditions_of(std::string_view probes) const override;
    void obey(std::span<const CostLimit> limits, std::uint64_t now_ns) override;

private:
    static constexpr std::size_t remembered = 1024; // overdue calls that were reported

    struct Told {
        std::uint32_t slot;
        std::uint64_t generation, start_ns, deadline_ns;
    };
    // Offers the call to the rules once for each condition that it may concern, if the rule has not changed since the
    // call was measured.  Returns how many conditions these were.  If the kernel side has sent a signal for the call,
    // it is always offered.
    std::size_t over(const bpf::latency_event &event);
    void overdue(const OverdueCall &call);
    capture::LatencyTrigger trigger_of(const WantedProbe &wanted, const bpf::call_frame &frame) const;

    RecorderLatency kernel_;
    LatencyProbes probes_;
    std::set<capture::ProcessRef> processes_; // that were reported
    std::deque<Told> told_;
    std::map<std::string, std::uint64_t> calls_before_; // by key of the probe, as the measurement began
};

} // namespace incident::daemon
