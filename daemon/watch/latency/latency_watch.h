// The latency rules at work: which probes they want, what the kernel side and the scanner
// say of slow calls, and how the probes fare.
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

    // Every process that the rules are about is told of again by the kernel side (EVENT_STARTED), for each thread
    // decides anew under another generation of rules.
    void apply(std::uint64_t now_ns) override;
    void describe(ConditionStates &states) const override;
    // Tells of calls that have passed a deadline and are still running.
    std::uint64_t poll(std::uint64_t now_ns) override;
    bool tend(std::uint64_t now_ns) override;
    // Slow calls that are over, and processes about to run code that their dynamic loader has mapped.
    std::optional<bool> take(const bpf::event_header &header, std::span<const std::uint8_t> bytes) override;
    void started(const rules::ProcessFacts &process) override;

    void prepare_measurement() override { probes_.measure_traps(); }
    void begin_measurement() override;
    void end_measurement(const CostMeter &meter, double seconds, CostMeasurement &measured) const override;
    std::optional<std::vector<std::string>> conditions_of(std::string_view probes) const override;
    void obey(std::span<const CostLimit> limits, std::uint64_t now_ns) override;

private:
    static constexpr std::size_t remembered = 1024; // overdue calls that were told of

    struct Told {
        std::uint32_t slot;
        std::uint64_t generation, start_ns, deadline_ns;
    };
    // Offers the call once for each condition that it may concern and whose rule is what it was when the call was
    // measured; how many that were.  A call that the kernel side has signalled concerns somebody in any case.
    std::size_t over(const bpf::latency_event &event);
    void overdue(const OverdueCall &call);
    capture::LatencyTrigger trigger_of(const WantedProbe &wanted, const bpf::call_frame &frame) const;

    RecorderLatency kernel_;
    LatencyProbes probes_;
    std::set<capture::ProcessRef> processes_; // that were told of
    std::deque<Told> told_;
    std::map<std::string, std::uint64_t> calls_before_; // by probe's key, as the measurement began
};

} // namespace incident::daemon
