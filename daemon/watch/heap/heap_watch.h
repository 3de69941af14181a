// Whose heap is recorded, how closely, and what has become of it.
//
// Functions are looked for and probes put on a thread of its own, for a large program's symbols and
// a slow file keep nobody waiting there but other heaps.
#pragma once

#include "daemon/watch/heap/heap_price.h"
#include "daemon/watch/heap/heap_process.h"
#include "daemon/watch/watch.h"
#include "rules/files/config.h"
#include "rules/model/rule.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <thread>
#include <unordered_map>

namespace incident::daemon {

class HeapWatch : public Watch {
public:
    HeapWatch(const WatchContext &context, const rules::Config::Heap &config);
    ~HeapWatch() override; // takes all probes off

    // Processes no rule wants, or wants otherwise, are let go; those that run already are looked for in /proc.
    void apply(std::uint64_t now_ns) override;
    void describe(ConditionStates &states) const override;
    // Lets go of processes that have ended.
    bool tend(std::uint64_t now_ns) override;
    void started(const rules::ProcessFacts &process) override;
    // The heap of the process, where a rule asks for it.
    void add_context(const FiredIncident &incident) const override;

    void add_status(nlohmann::ordered_json &status) const override;
    void begin_measurement() override;
    void end_measurement(const CostMeter &meter, double seconds, CostMeasurement &measured) const override;
    void obey(std::span<const CostLimit> limits, std::uint64_t now_ns) override;

private:
    struct Known {
        std::string comm, rule;
        std::shared_ptr<HeapProcess> process;
        std::uint64_t bytes = 0;
        bool held = false; // not recorded, for a limit says so
    };
    struct Look {
        std::uint64_t due_ns = 0;
        unsigned attempt = 0, found = 0; // looks so far; and of those since there were functions
        std::weak_ptr<HeapProcess> process;
    };
    struct Slots {
        std::mutex mutex;
        std::vector<unsigned> free;
    };

    // Recorded less closely than rules ask, until the next obey().
    struct Limit {
        rules::Allocations level = rules::Allocations::Pages;
        std::string why;
    };
    struct Load {
        std::uint32_t pid = 0;
        std::string comm;
        rules::Allocations asked = rules::Allocations::Pages;
        HeapProcess::Load now;
    };

    std::vector<Load> loads() const;
    // What a call costs at that level, as measured on this machine; nullopt: not measured (yet).
    std::optional<HeapPrice> price(rules::Allocations level) const;
    HeapWish wish_for(const rules::ProcessFacts &process, std::string &rule) const;
    void find_running();
    // Its start may be exact to a tick only; exec_ns: its last exec, 0 not known.
    void record_from_now(const rules::ProcessFacts &process, std::uint64_t exec_ns);
    bool lives(const capture::ProcessRef &process) const;
    std::shared_ptr<HeapProcess> record(const rules::ProcessFacts &process, std::uint64_t exec_ns, const HeapWish &wish,
                                        std::uint64_t bytes);
    void begin(Known &known, const rules::ProcessFacts &process, std::uint64_t exec_ns, const HeapWish &wish);
    void hold(Known &known, const std::string &why);
    void obey_limit(Known &known);
    void let_go(Known &known);
    std::unique_ptr<HeapSlot> take_slot();
    void measure_prices();
    void work();

    rules::Config::Heap config_;
    std::unique_ptr<HeapKernel> kernel_; // outlives every slot
    std::string unavailable_;            // why there is none though a rule wants it
    std::shared_ptr<Slots> slots_ = std::make_shared<Slots>();
    std::unordered_map<std::uint32_t, Known> known_;    // by pid
    std::map<std::uint32_t, Limit> limits_;             // by pid
    std::map<std::uint32_t, HeapProcess::Load> before_; // by pid, as the measurement began
    std::uint64_t memory_ = 0;                          // bytes at worst, of all that are recorded

    HeapFunctionCache cache_; // of the working thread
    mutable std::mutex mutex_;
    std::condition_variable more_;
    std::vector<Look> looks_;
    std::vector<std::shared_ptr<HeapProcess>> retiring_;
    bool prices_wanted_ = false;
    std::optional<HeapPrice> sizes_price_, history_price_;
    bool ending_ = false;
    std::optional<Detacher> detacher_; // gone before the kernel side
    std::thread worker_;
};

} // namespace incident::daemon
