// The list of all watches.  The daemon calls this, and each call reaches every watch.
#pragma once

#include "daemon/watch/watch.h"

#include <memory>

namespace incident::daemon {

class Watches {
public:
    explicit Watches(WatchContext context) : context_(std::move(context)) {}
    Watches(const Watches &) = delete;
    Watches &operator=(const Watches &) = delete;

    const WatchContext &context() const { return context_; } // valid as long as this object
    void add(std::unique_ptr<Watch> watch) { all_.push_back(std::move(watch)); }

    void apply(std::uint64_t now_ns);
    void describe(ConditionStates &states) const;
    // Polls the watches that are due.
    void poll(std::uint64_t now_ns);
    std::uint64_t due_ns() const; // when poll() is needed next
    bool tend(std::uint64_t now_ns);
    // false: the rules that the event belongs to are gone.
    bool take(const bpf::event_header &header, std::span<const std::uint8_t> bytes);
    void started(const rules::ProcessFacts &process);
    void before_rules(Occurrence &occurrence);
    void add_context(const FiredIncident &incident) const;
    void add_status(nlohmann::ordered_json &status) const;
    void prepare_measurement();
    void begin_measurement();
    void end_measurement(const CostMeter &meter, double seconds, CostMeasurement &measured) const;
    std::optional<std::vector<std::string>> conditions_of(std::string_view probes) const;
    void obey(std::span<const CostLimit> limits, std::uint64_t now_ns);

private:
    WatchContext context_;
    std::vector<std::unique_ptr<Watch>> all_;
};

} // namespace incident::daemon
