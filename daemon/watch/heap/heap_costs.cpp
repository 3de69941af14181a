// Measures what recording heaps costs, and lowers the level of those the governor names.
#include "daemon/watch/heap/heap_watch.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace incident::daemon {

namespace {

// As a share of one CPU.
double price_of(const std::optional<HeapPrice> &price, double allocations, double frees) {
    if (!price)
        return 0;
    return (allocations * static_cast<double>(price->allocation_ns) + frees * static_cast<double>(price->free_ns)) /
           1e9;
}

} // namespace

void HeapWatch::begin_measurement() {
    before_.clear();
    for (const auto &heap : loads())
        before_[heap.pid] = heap.now;
}

// At the price measured on this machine, the kernel's traps included.  History is never cheaper than sizes, though
// the two measurements, disturbed by whatever else ran, may say so.
void HeapWatch::end_measurement(const CostMeter &, double seconds, CostMeasurement &measured) const {
    const auto sizes = price(rules::Allocations::Sizes), history = price(rules::Allocations::History);
    for (const auto &heap : loads()) {
        CostMeasurement::Heap line{.pid = heap.pid, .comm = heap.comm, .asked = heap.asked, .level = heap.now.level};
        const auto before = before_.find(heap.pid);
        const bool same = before != before_.end() && heap.now.allocations >= before->second.allocations &&
                          heap.now.frees >= before->second.frees;
        if (same) {
            const double allocations = static_cast<double>(heap.now.allocations - before->second.allocations) / seconds,
                         frees = static_cast<double>(heap.now.frees - before->second.frees) / seconds;
            const double at_sizes = price_of(sizes, allocations, frees),
                         more = std::max(0.0, price_of(history, allocations, frees) - at_sizes);
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

// At "sizes" the account goes on; at "pages" it ends, and begins anew when there is room again.
void HeapWatch::obey(std::span<const CostLimit> limits, std::uint64_t) {
    limits_.clear();
    for (const auto &[step, reason] : limits) {
        std::uint32_t pid = 0;
        std::from_chars(step.subject.data(), step.subject.data() + step.subject.size(), pid);
        if (step.kind == CostStep::Kind::HistoryToSizes)
            limits_.insert_or_assign(pid, Limit{rules::Allocations::Sizes, reason});
        else if (step.kind == CostStep::Kind::SizesToPages) // a later step than the other of the same process
            limits_.insert_or_assign(pid, Limit{rules::Allocations::Pages, reason});
    }
    for (auto &[pid, known] : known_)
        obey_limit(known);
}

void HeapWatch::add_status(nlohmann::ordered_json &status) const {
    std::map<std::uint32_t, const Known *> by_pid;
    for (const auto &[pid, known] : known_)
        by_pid.emplace(pid, &known);
    auto processes = nlohmann::ordered_json::array();
    for (const auto &[pid, known] : by_pid) {
        const HeapProcess::State state = known->process->state();
        processes.push_back({{"pid", pid},
                             {"comm", known->comm},
                             {"level", state.level},
                             {"functions", state.probed},
                             {"since_ns", state.since_ns},
                             {"calls", state.calls},
                             {"lost", state.lost},
                             {"reason", state.reason}});
    }
    nlohmann::ordered_json &json = status["heaps"];
    json = {{"memory_bytes", memory_}, {"memory_max", config_.memory}};
    for (const auto &[name, level] :
         {std::pair{"sizes", rules::Allocations::Sizes}, std::pair{"history", rules::Allocations::History}})
        if (const auto known = price(level))
            json["cost"][name] = {{"allocation_ns", known->allocation_ns}, {"free_ns", known->free_ns}};
    json["processes"] = std::move(processes);
}

} // namespace incident::daemon
