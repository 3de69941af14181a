// What the kernel side is told about the rules: a bit for each condition it can sift for,
// and what to test of it.  Pure: rules in, settings out.
#pragma once

#include "bpf/event.h"
#include "rules/engine/engine.h"

#include <array>
#include <string>
#include <vector>

namespace incident::daemon {

struct TriggerPlan {
    // Which these are, among all that were since the start, and what the bits mean only in it; 0: not in force yet.
    // See RuleHistory.
    std::uint32_t generation = 0;
    // A condition and its bit.  Beyond RULE_BITS - 1 of them all others share the last bit,
    // with the loosest tests of all: the engine sorts them out.
    struct Assigned {
        std::string rule;
        std::size_t condition = 0;
        unsigned bit = 0;
    };
    std::vector<Assigned> assigned;
    std::array<bpf::condition_settings, RULE_BITS> settings{};
    // Bits by kind.
    std::uint64_t heap = 0;   // one of each rule that asks for its processes' heaps
    std::uint64_t signal = 0; // about signals that do not kill
    std::uint64_t latency = 0, syscall = 0, exit = 0, blocked = 0, block_io = 0, reclaim = 0, tracepoint = 0;
    std::uint64_t syscalls_of[2][SYSCALL_CLASSES] = {}; // [compat][nr]: conditions about this call
    std::uint64_t blocked_min_ns = 0;
    bool blocked_idle = false;
    bool durations = false; // some condition is about how long calls or waits last
    bool oom = false, memory = false, txg = false;
    std::vector<std::uint64_t> blocked_deadlines; // thresholds of when = "deadline", ascending, each once
    // Some condition tested in the kernel has a `match`: the verdicts must say which.
    bool ask_rules = false;
    std::uint64_t rules_of_all = 0; // of a process nobody need ask about
    struct Tracepoint {
        unsigned bit = 0;
        std::string rule;
        std::size_t condition = 0;
        std::string category, name;
        std::uint32_t id = 0;  // bpf::condition_settings::id
        bool everyone = false; // the rule has no `match`: also kernel threads, and the idle task's interrupts
    };
    std::vector<Tracepoint> tracepoints;

    // By which the kernel side may make a process dump core by itself, once it has a permit.
    std::uint64_t dumping() const {
        std::uint64_t bits = 0;
        for (unsigned bit = 0; bit < RULE_BITS; ++bit)
            bits |= settings[bit].dump_signal ? 1ull << bit : 0;
        return bits;
    }
    std::uint64_t told() const { return latency | heap; } // their processes are told of when they start
    bool any() const { return !assigned.empty(); }
};

// allow_dump: [safety].
TriggerPlan plan_triggers(std::span<const rules::Rule> rules, bool allow_dump);

// The conditions about a process: bits as in bpf::thread_slot.
std::uint64_t rules_of(const TriggerPlan &plan, std::span<const rules::Rule> rules, const rules::ProcessFacts &process);

} // namespace incident::daemon
