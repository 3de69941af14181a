// Whose heap is recorded, how closely, and what has become of it.
//
// Functions are looked for and probes put on a thread of its own, for a large program's symbols and
// a slow file keep nobody waiting there but other heaps.
#pragma once

#include "daemon/record/rule_states.h"
#include "daemon/watch/heap_price.h"
#include "daemon/watch/heap_process.h"
#include "rules/files/config.h"
#include "rules/model/rule.h"

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <thread>
#include <unordered_map>

namespace incident::daemon {

// What a bundle takes of a heap; read() on the writer's thread, for there is much of it.
class HeapSource {
public:
    HeapSource(std::shared_ptr<const HeapProcess> process, std::optional<HeapProcess::Copy> copy,
               std::optional<HeapPrice> price)
        : process_(std::move(process)), copy_(std::move(copy)), price_(price) {}
    capture::HeapSnapshot read() const;

private:
    std::shared_ptr<const HeapProcess> process_;
    std::optional<HeapProcess::Copy> copy_;
    std::optional<HeapPrice> price_;
};

class HeapWatch {
public:
    HeapWatch(capture::OsRoots os, UprobeAbilities abilities);
    ~HeapWatch(); // takes all probes off

    // The rules from now on.  Processes no rule wants, or wants otherwise, are let go; the caller then tells again of
    // every process it knows.
    void set_rules(std::span<const rules::Rule> rules, const rules::Config::Heap &config);
    // A process has started, executed another program, or been seen for the first time under these rules.  Twice is
    // harmless.  Its start may be exact to a tick only; exec_ns: its last exec, 0 not known.
    void started(const rules::ProcessFacts &process, std::uint64_t exec_ns, std::span<const rules::Rule> rules);
    // Lets go of processes that have ended; now and then.
    void forget_ended(const std::function<bool(std::uint32_t pid, std::uint64_t start_boot_ns)> &lives);

    // For a bundle about that process; null: no rule asks for its heap.  dying: it makes no more calls, so
    // all is read later.
    std::shared_ptr<HeapSource> source(std::uint32_t pid, std::uint64_t start_boot_ns, bool dying) const;

    struct Line {
        std::uint32_t pid = 0;
        std::string comm;
        HeapProcess::State state;
    };
    std::vector<Line> lines() const;
    std::uint64_t memory_bytes() const { return memory_; } // at worst, of all that are recorded
    // What a call costs at that level, as measured on this machine; nullopt: not measured (yet).
    std::optional<HeapPrice> price(rules::Allocations level) const;
    // Processes by pid that are recorded less closely than rules ask, until the next call: at "sizes" the account goes
    // on, at "pages" it ends, and begins anew when there is room again.
    struct Limit {
        rules::Allocations level = rules::Allocations::Pages;
        std::string why;
    };
    void limit(std::map<std::uint32_t, Limit> limits);
    struct Load {
        std::uint32_t pid = 0;
        std::string comm;
        rules::Allocations asked = rules::Allocations::Pages;
        HeapProcess::Load now;
    };
    std::vector<Load> loads() const;
    // The state of rules whose processes' heaps are not recorded as they ask.
    void describe(ConditionStates &states) const;

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

    HeapWish wish_for(const rules::ProcessFacts &process, std::span<const rules::Rule> rules, std::string &rule) const;
    std::shared_ptr<HeapProcess> record(const rules::ProcessFacts &process, std::uint64_t exec_ns, const HeapWish &wish,
                                        std::uint64_t bytes);
    void begin(Known &known, const rules::ProcessFacts &process, std::uint64_t exec_ns, const HeapWish &wish);
    void hold(Known &known, const std::string &why);
    void obey_limit(Known &known);
    void let_go(Known &known);
    std::unique_ptr<HeapSlot> take_slot();
    void measure_prices();
    void work();

    capture::OsRoots os_;
    rules::Config::Heap config_;
    std::unique_ptr<HeapKernel> kernel_; // outlives every slot
    std::string unavailable_;            // why there is none though a rule wants it
    std::shared_ptr<Slots> slots_ = std::make_shared<Slots>();
    std::unordered_map<std::uint32_t, Known> known_; // by pid
    std::map<std::uint32_t, Limit> limits_;
    std::uint64_t memory_ = 0;

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
