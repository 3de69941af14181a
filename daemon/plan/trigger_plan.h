// What the kernel side is told about the rules: a bit for each condition that it can test, and what to test.  The plan
// is made from the rules alone, without I/O.
#pragma once

#include "bpf/event.h"
#include "rules/engine/engine.h"

#include <array>
#include <string>
#include <vector>

namespace incident::daemon {

struct TriggerPlan {
    // The number of this plan among all plans since the start.  Bits have a meaning only together with it; see
    // RuleHistory.  0: the plan is not in force yet.
    std::uint32_t generation = 0;
    // A condition and its bit.  If there are more than RULE_BITS - 1 conditions, the others share the last bit with the
    // loosest of their tests, and the engine decides which of them is met.
    struct Assigned {
        std::string rule;
        std::size_t condition = 0;
        unsigned bit = 0;
    };
    std::vector<Assigned> assigned;
    std::array<bpf::condition_settings, RULE_BITS> settings{};
    // Bits by kind.
    std::uint64_t heap = 0;          // a bit of each rule that asks for the heaps of its processes
    std::uint64_t payload = 0;       // a bit of each rule that asks for what its processes send and receive
    std::uint32_t payload_bytes = 0; // the most that one of them asks for
    std::uint64_t signal = 0;        // conditions about signals that do not kill
    std::uint64_t latency = 0, syscall = 0, exit = 0, blocked = 0, block_io = 0, reclaim = 0, tracepoint = 0;
    std::uint64_t syscalls_of[2][SYSCALL_CLASSES] = {}; // [compat][nr]: conditions about this call
    std::uint64_t blocked_min_ns = 0;
    bool blocked_idle = false;
    bool durations = false; // some condition is about how long calls or waits last
    bool oom = false, memory = false, txg = false;
    std::vector<std::uint64_t> blocked_deadlines; // thresholds of when = "deadline", ascending, each once
    // A condition that the kernel side tests has a `match`, so the decision about a process must say which conditions
    // are about it.
    bool ask_rules = false;
    std::uint64_t rules_of_all = 0; // for a process about which the daemon need not be asked
    struct Tracepoint {
        unsigned bit = 0;
        std::string rule;
        std::size_t condition = 0;
        std::string category, name;
        std::uint32_t id = 0;  // bpf::condition_settings::id
        bool everyone = false; // the rule has no `match`: also kernel threads, and the idle task's interrupts
    };
    std::vector<Tracepoint> tracepoints;

    // Conditions for which the kernel side may make a process dump core on its own, once it has a permit.
    std::uint64_t dumping() const {
        std::uint64_t bits = 0;
        for (unsigned bit = 0; bit < RULE_BITS; ++bit)
            bits |= settings[bit].dump_signal ? 1ull << bit : 0;
        return bits;
    }
    // Conditions whose processes the daemon is told of when they start.
    std::uint64_t told() const { return latency | heap; }
    bool any() const { return !assigned.empty(); }
};

// allow_dump: [safety].
TriggerPlan plan_triggers(std::span<const rules::Rule> rules, bool allow_dump);

// The conditions that are about this process; bits as in bpf::thread_slot.
std::uint64_t rules_of(const TriggerPlan &plan, std::span<const rules::Rule> rules, const rules::ProcessFacts &process);

} // namespace incident::daemon
