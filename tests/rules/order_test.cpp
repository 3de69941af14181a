// The engine's answers do not depend on the order in which the kernel delivers what happened at about the same time.
//
// The ring buffer has events in the order in which their room was reserved, and their times were read just before on
// different CPUs.  So those of one CPU keep their order, and among CPUs an event may come after others that are later
// by as long as its CPU was kept from going on: by interrupts, by the hypervisor.  What user space sees itself (a
// passed deadline) overtakes what still waits in the buffer.
//
// INCIDENTD_TEST_SEED chooses other sequences, INCIDENTD_TEST_SEQUENCES how many.
#include "tests/rules/events.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

namespace incident::rules {
namespace {

constexpr std::uint64_t latest_ns = 200 * ms; // how much an event may come after a later one

std::uint64_t number_of(const char *variable, std::uint64_t otherwise) {
    const char *text = std::getenv(variable);
    return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

struct Happened {
    Event event;
    unsigned cpu = 0;
    std::size_t number = 0; // by time
};

class Sequences {
public:
    explicit Sequences(std::uint64_t seed) : random_(seed) {}
    std::uint64_t below(std::uint64_t end) { return random_() % end; }

    // One of the orders in which these can be delivered: each CPU's in their order, each at most latest_ns late.
    std::vector<Happened> delivered(const std::vector<Happened> &by_time) {
        std::map<unsigned, std::vector<Happened>> of_cpu;
        for (auto each = by_time.rbegin(); each != by_time.rend(); ++each)
            of_cpu[each->cpu].push_back(*each); // the next one last
        std::vector<Happened> order;
        while (!of_cpu.empty()) {
            std::uint64_t oldest = UINT64_MAX;
            for (const auto &[cpu, waiting] : of_cpu)
                oldest = std::min(oldest, waiting.back().event.t_ns);
            std::vector<unsigned> may_come;
            for (const auto &[cpu, waiting] : of_cpu)
                if (waiting.back().event.t_ns - oldest <= latest_ns)
                    may_come.push_back(cpu);
            auto chosen = of_cpu.find(may_come[below(may_come.size())]);
            order.push_back(std::move(chosen->second.back()));
            chosen->second.pop_back();
            if (chosen->second.empty())
                of_cpu.erase(chosen);
        }
        return order;
    }

private:
    std::mt19937_64 random_;
};

std::string told(const std::vector<Decision> &decisions) {
    std::string text;
    for (const Decision &decision : decisions) {
        text += decision.rule->name + " " + std::to_string(static_cast<int>(decision.outcome)) + " " + decision.why +
                " " + std::to_string(decision.suppressed_before) + " " + std::to_string(decision.condition) + " " +
                std::to_string(decision.matches_total) + " " + std::to_string(decision.value_total);
        for (const Matched &match : decision.matches)
            text += " " + std::to_string(match.t_ns) + ":" + std::to_string(match.value);
        text += "\n";
    }
    return text;
}

const char *const rules_by_process = R"(
[[rule]]
name = "calls"
on = "syscall"
errno = ["EIO"]
count = 3
window = "2s"
limit = { cooldown = "3s", by = "process" }
[[rule]]
name = "stalls"
on = "reclaim"
count = 100
stalled = "500ms"
window = "5s"
by = "process"
limit = { per_hour = 4, by = "process" }
[[rule]]
name = "both"
on = "all"
within = "4s"
limit = { by = "process" }
[[rule.condition]]
on = "syscall"
errno = ["EIO"]
[[rule.condition]]
on = "reclaim"
count = 2
window = "3s"
by = "process"
[[rule]]
name = "either"
on = "any"
limit = { cooldown = "1s", by = "process" }
[[rule.condition]]
on = "blocked"
threshold = "1s"
[[rule.condition]]
on = "memory"
growth = "10MiB"
within = "3s"
)";

EventKind something(Sequences &random) {
    switch (random.below(4)) {
    case 0:
        return SyscallEvent{"read", random.below(4) ? -5 : 0, random.below(second)};
    case 1:
        return ReclaimEvent{.stalled_ns = random.below(300) * ms};
    case 2:
        return BlockedEvent{.blocked_ns = random.below(2 * second)};
    default:
        return MemoryEvent{random.below(40) * MiB};
    }
}

// What others do on other CPUs never changes what is said of a process, not even which matches made a rule fire.
TEST(Order, WhatOneProcessDoesMeansTheSameHoweverOthersAreMixedIn) {
    const std::uint64_t seed = number_of("INCIDENTD_TEST_SEED", 1);
    const std::vector<Rule> rules = good_rules(rules_by_process);
    std::uint64_t fired = 0, late = 0;
    for (std::uint64_t i = 0; i < number_of("INCIDENTD_TEST_SEQUENCES", 10'000) / 2; ++i) {
        Sequences random(seed + i);
        std::vector<Happened> by_time;
        std::uint64_t t_ns = hour;
        const std::uint64_t pace = random.below(3) ? 200 * ms : 2 * second;
        for (std::size_t n = 0; n < 60; ++n) {
            t_ns += random.below(pace);
            const auto pid = static_cast<std::uint32_t>(1 + random.below(4));
            by_time.push_back({event(t_ns, something(random), process(pid)), pid, n}); // a CPU for each
        }
        Engine sorted(rules), mixed(rules);
        std::map<std::size_t, std::string> said;
        for (const Happened &each : by_time)
            said[each.number] = told(sorted.decide(each.event));
        std::uint64_t newest = 0;
        for (const Happened &each : random.delivered(by_time)) {
            late += each.event.t_ns < newest;
            newest = std::max(newest, each.event.t_ns);
            ASSERT_EQ(told(mixed.decide(each.event)), said[each.number]) << "seed " << seed + i << ", " << each.number;
        }
        for (const Rule &rule : rules)
            fired += sorted.counters(rule.name).fired;
    }
    EXPECT_GT(fired, 1000u);
    EXPECT_GT(late, 1000u);
}

const char *const rules_by_several = R"(
[[rule]]
name = "crash"
on = "signal"
limit = { cooldown = "2500ms", per_hour = 6, by = "exe" }
[[rule]]
name = "host"
on = "reclaim"
count = 5
window = "4500ms"
by = "host"
limit = { cooldown = "0s" }
[[rule]]
name = "group"
on = "syscall"
errno = ["EIO"]
count = 4
window = "3500ms"
by = "cgroup"
limit = { cooldown = "1500ms", by = "cgroup" }
[[rule]]
name = "stalled"
on = "block_io"
slower_than = "1s"
stalled = "7s"
window = "6500ms"
by = "host"
limit = { per_hour = 5 }
)";

// For each rule and outcome, how many decisions there were.
using Outcomes = std::map<std::pair<std::string, Outcome>, std::size_t>;

void decide(Engine &engine, const Event &event, Outcomes &outcomes) {
    for (const Decision &decision : engine.decide(event))
        ++outcomes[{decision.rule->name, decision.outcome}];
}

// Events that count together: which of them makes the rule fire depends on their order, but not how many times it
// fires. Between bursts there is more time than an event can be late, and no limit ends within one.
TEST(Order, ABurstOnSeveralCpusFiresAsOftenInAnyOrder) {
    const std::uint64_t seed = number_of("INCIDENTD_TEST_SEED", 1);
    const std::vector<Rule> rules = good_rules(rules_by_several);
    std::uint64_t fired = 0, suppressed = 0, late = 0;
    for (std::uint64_t i = 0; i < number_of("INCIDENTD_TEST_SEQUENCES", 10'000) / 2; ++i) {
        Sequences random(~(seed + i));
        Engine sorted(rules), mixed(rules);
        std::uint64_t burst_ns = hour;
        for (unsigned burst = 0; burst < 12; ++burst) {
            burst_ns += (1 + random.below(5)) * second; // limits and windows end half a second away
            std::vector<Happened> by_time;
            std::uint64_t t_ns = burst_ns;
            for (std::size_t n = random.below(14) + 1; n > 0; --n) {
                t_ns += random.below(latest_ns / 14);
                const auto pid = static_cast<std::uint32_t>(1 + random.below(6));
                ProcessFacts of = process(pid, pid % 2 ? "/odd" : "/even");
                of.exe = pid % 3 ? "/opt/app" : "/opt/other";
                const EventKind kinds[] = {SignalEvent{.number = SIGSEGV, .fatal = true},
                                           ReclaimEvent{.stalled_ns = ms}, SyscallEvent{"read", -5, 1},
                                           BlockIoEvent{"sda", 2 * second}};
                by_time.push_back(
                    {event(t_ns, kinds[random.below(4)], of), static_cast<unsigned>(random.below(4)), by_time.size()});
            }
            Outcomes in_order, as_delivered;
            for (const Happened &each : by_time)
                decide(sorted, each.event, in_order);
            std::uint64_t newest = 0;
            for (const Happened &each : random.delivered(by_time)) {
                late += each.event.t_ns < newest;
                newest = std::max(newest, each.event.t_ns);
                decide(mixed, each.event, as_delivered);
            }
            ASSERT_EQ(as_delivered, in_order) << "seed " << seed + i << ", burst " << burst;
        }
        for (const Rule &rule : rules) {
            const RuleCounters a = sorted.counters(rule.name), b = mixed.counters(rule.name);
            ASSERT_EQ(std::tie(a.fired, a.suppressed, a.matched, a.forgotten_keys),
                      std::tie(b.fired, b.suppressed, b.matched, b.forgotten_keys));
            fired += a.fired;
            suppressed += a.suppressed;
        }
    }
    EXPECT_GT(fired, 1000u);
    EXPECT_GT(suppressed, 1000u);
    EXPECT_GT(late, 1000u);
}

// A count above what is kept one by one: what came late to a piece leaves the window in its own time, not later.
TEST(Order, ALateMatchIsNotCountedBeyondItsWindow) {
    Engine engine(good_rules(rule_on("reclaim", "count = 3000\nwindow = \"10s\"\nby = \"host\"")));
    const auto at = [&](std::uint64_t t_ns) {
        return outcome(engine, event(hour + t_ns, ReclaimEvent{.stalled_ns = 1}));
    };
    for (unsigned i = 0; i < 1100; ++i)
        ASSERT_EQ(at(100 * ms), 'c');
    for (unsigned i = 0; i < 900; ++i)
        ASSERT_EQ(at(0), 'c'); // late
    for (unsigned i = 0; i < 1000; ++i)
        ASSERT_EQ(at(10 * second + 50 * ms), 'c') << i; // those at 0 have left
}

} // namespace
} // namespace incident::rules
