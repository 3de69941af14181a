// Decides which heaps are recorded and at which level, and knows how that went.
//
// A thread of its own searches for functions and puts probes, so that a large program or a slow file delays only other
// heaps.
#pragma once

#include "daemon/watch/heap/heap_price.h"
#include "daemon/watch/heap/heap_process.h"
#include "daemon/watch/watch.h"
#include "rules/files/config.h"
#include "rules/model/rule.h"

#include <condition_variable>
#include <map>
#include <thread>
#include <unordered_map>

namespace incident::daemon {

class HeapWatch : public Watch {
public:
    HeapWatch(const WatchContext &context, const rules::Config::Heap &config);
    ~HeapWatch() override; // takes all probes off

    // Stops recording processes that no rule wants, or that rules want in another way.  Finds running processes in
    // /proc.
    void apply(std::uint64_t now_ns) override;
    void describe(ConditionStates &states) const override;
    // Forgets processes that have ended.
    bool tend(std::uint64_t now_ns) override;
    void started(const rules::ProcessFacts &process) override;
    // Adds the heap of the process, if a rule asks for it.
    void add_context(const FiredIncident &incident) const override;

    void add_status(nlohmann::ordered_json &status) const override;
    void begin_measurement() override;
    void end_measurement(const CostMeter &meter, double seconds, CostMeasurement &measured) const override;
    void obey(std::span<const CostLimit> limits, std::uint64_t now_ns) override;

private:
    struct Known {
        std::string comm, rule;
        std::uint32_t user = 0; // rules::user_of()
        std::uint64_t since = 0;
        std::shared_ptr<HeapProcess> process;
        std::uint64_t bytes = 0;
        bool held = false; // not recorded because of a limit
    };
    struct Look {
        std::uint64_t due_ns = 0;
        unsigned attempt = 0, found = 0; // looks so far; and how many since functions were found
        std::weak_ptr<HeapProcess> process;
    };
    struct Slots {
        std::mutex mutex;
        std::vector<unsigned> free;
    };

    // A process that is recorded at a lower level than rules ask for, until the next obey().
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
    // What a call costs at this level, measured on this machine; nullopt: not measured (yet).
    std::optional<HeapPrice> price(rules::Allocations level) const;
    HeapWish wish_for(const rules::ProcessFacts &process, std::string &rule) const;
    void find_running();
    // The start of the process may be known only to a clock tick.  exec_ns: its last exec; 0: not known.
    void record_from_now(const rules::ProcessFacts &process, std::uint64_t exec_ns);
    bool lives(const capture::ProcessRef &process) const;
    std::shared_ptr<HeapProcess> record(const rules::ProcessFacts &process, std::uint64_t exec_ns, const HeapWish &wish,
                                        std::uint64_t bytes, std::uint32_t user);
    void begin(Known &known, const rules::ProcessFacts &process, std::uint64_t exec_ns, const HeapWish &wish);
    void stop_recording(Known &known, const std::string &why);
    void hold(Known &known, const std::string &why);
    void obey_limit(Known &known);
    void let_go(Known &known);
    bool make_room(std::uint32_t user, std::uint64_t bytes);
    std::unique_ptr<HeapSlot> take_slot();
    void measure_prices();
    void work();

    rules::Config::Heap config_;
    std::unique_ptr<HeapKernel> kernel_; // must outlive every slot
    std::string unavailable_;            // why there is none although a rule wants it
    std::shared_ptr<Slots> slots_ = std::make_shared<Slots>();
    std::unordered_map<std::uint32_t, Known> known_;    // by pid
    std::map<std::uint32_t, Limit> limits_;             // by pid
    std::map<std::uint32_t, HeapProcess::Load> before_; // by pid, as the measurement began
    std::uint64_t begun_ = 0;                           // heaps that were recorded so far
    std::uint64_t memory_ = 0;                          // the most bytes that all recorded heaps can take

    HeapFunctionCache cache_; // only the working thread uses it
    mutable std::mutex mutex_;
    std::condition_variable more_;
    std::vector<Look> looks_;
    std::vector<std::shared_ptr<HeapProcess>> retiring_;
    bool prices_wanted_ = false;
    std::optional<HeapPrice> sizes_price_, history_price_;
    bool ending_ = false;
    std::optional<Detacher> detacher_; // destroyed before the kernel side
    std::thread worker_;
};

} // namespace incident::daemon
