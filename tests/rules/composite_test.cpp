// on = "all" and on = "any".

#include "tests/rules/events.h"

#include <gmock/gmock.h>

namespace incident::rules {
namespace {

Event failing(std::uint64_t t_ns, const ProcessFacts &of = process(42)) {
    return event(t_ns, SyscallEvent{.name = "openat", .ret = -24}, of);
}
Event slow(std::uint64_t t_ns, const ProcessFacts &of = process(42)) {
    return event(t_ns, BlockIoEvent{.device = "sda", .duration_ns = 2 * second}, of);
}
Event waiting(std::uint64_t t_ns, const ProcessFacts &of = process(42)) {
    return event(t_ns, ReclaimEvent{.stalled_ns = 10 * ms}, of);
}
Event txg(std::uint64_t t_ns) {
    return event(t_ns, TxgEvent{.pool = "tank", .elapsed_ns = 9 * second, .in_flight = true}, ProcessFacts{});
}
Event sample(std::uint64_t t_ns, std::uint64_t mebibytes, const ProcessFacts &of = process(42)) {
    return event(t_ns, MemoryEvent{mebibytes * MiB}, of);
}

std::string of_conditions(const std::string &kind, const std::vector<std::string> &conditions,
                          const std::string &lines = "") {
    std::string text = rule_on(kind, (kind == "all" ? "within = \"30s\"\n" : "") + lines);
    for (const std::string &condition : conditions)
        text += "[[rule.condition]]\n" + condition + "\n";
    return text;
}

const std::string call_fails = "on = \"syscall\"\nerrno = \"EMFILE\"";
const std::string slow_io = "on = \"block_io\"\nslower_than = \"1s\"";
const std::string host_reclaim = "on = \"reclaim\"\ncount = 3\nwindow = \"10s\"\nby = \"host\"";
const std::string growing = "on = \"memory\"\ngrowth = \"100MiB\"\nwithin = \"1m\"";
const std::string txg_slow = "on = \"txg_sync\"\nthreshold = \"5s\"";

TEST(All, BothInAnyOrderWithin) {
    Engine engine = engine_of(of_conditions("all", {call_fails, slow_io}));
    EXPECT_EQ(outcome(engine, failing(1 * second)), 'c');
    EXPECT_EQ(outcome(engine, slow(31 * second)), 'F');
    EXPECT_EQ(outcome(engine, slow(100 * second)), 'c');
    EXPECT_EQ(outcome(engine, failing(130 * second)), 'F');
    EXPECT_EQ(outcome(engine, slow(200 * second)), 'c');
    EXPECT_EQ(outcome(engine, failing(230 * second + 1)), 'c') << "too far apart";
    EXPECT_EQ(outcome(engine, slow(231 * second)), 'F') << "the newest of each counts";
}

TEST(All, SaysWhatIsMissing) {
    Engine engine = engine_of(of_conditions("all", {call_fails, slow_io}));
    const auto decisions = engine.decide(failing(1));
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_EQ(decisions[0].why, "all: condition 2 (\"block_io\") is not met within 30s");
    EXPECT_EQ(decisions[0].condition, 0u);
    EXPECT_EQ(engine.decide(event(2, BlockIoEvent{.duration_ns = 1}))[0].why, "slower_than: took 0s, less than 1s");
}

TEST(All, OfTheSameProcess) {
    Engine engine = engine_of(of_conditions("all", {call_fails, slow_io}));
    EXPECT_EQ(outcome(engine, failing(1, process(1))), 'c');
    EXPECT_EQ(outcome(engine, slow(2, process(2))), 'c');
    EXPECT_EQ(outcome(engine, slow(3, process(1))), 'F');
    EXPECT_EQ(outcome(engine, failing(4, process(2))), 'F');
}

TEST(All, StartsAfreshAfterAFiring) {
    Engine engine = engine_of(of_conditions("all", {call_fails, slow_io}));
    EXPECT_EQ(outcome(engine, failing(1)), 'c');
    EXPECT_EQ(outcome(engine, slow(2)), 'F');
    EXPECT_EQ(outcome(engine, slow(3)), 'c');
    EXPECT_EQ(outcome(engine, slow(4)), 'c');
    EXPECT_EQ(outcome(engine, failing(5)), 'F');
}

TEST(All, ConditionsHaveTalliesOfTheirOwn) {
    Engine engine = engine_of(of_conditions("all", {call_fails + "\ncount = 2\nwindow = \"5s\"", slow_io}));
    EXPECT_EQ(outcome(engine, slow(1 * second)), 'c');
    EXPECT_EQ(outcome(engine, failing(2 * second)), 'c');
    const auto decisions = engine.decide(failing(3 * second));
    ASSERT_EQ(decisions[0].outcome, Outcome::Fire);
    ASSERT_EQ(decisions[0].matches.size(), 3u);
    EXPECT_EQ(decisions[0].matches[0].condition, 1u);
    EXPECT_EQ(decisions[0].matches[0].t_ns, 1 * second);
    EXPECT_EQ(decisions[0].matches[0].value, 2 * second);
    EXPECT_EQ(decisions[0].matches[1].condition, 0u);
    EXPECT_EQ(decisions[0].matches[2].t_ns, 3 * second);
    EXPECT_EQ(decisions[0].matches_total, 3u);
    EXPECT_FALSE(decisions[0].about.has_value());
    EXPECT_EQ(outcome(engine, failing(4 * second)), 'c') << "the tally started afresh";
}

TEST(All, AConditionByHostHoldsForEveryProcess) {
    Engine engine = engine_of(of_conditions("all", {growing, host_reclaim}, "match.comm = \"app\""));
    ProcessFacts other = process(7);
    other.comm = "other";
    EXPECT_EQ(outcome(engine, waiting(1 * second, other)), 'c') << "match is not about the host";
    EXPECT_EQ(outcome(engine, waiting(2 * second, other)), 'c');
    EXPECT_EQ(outcome(engine, waiting(3 * second, process(8))), 'c') << "met, for every process";
    EXPECT_EQ(outcome(engine, sample(4 * second, 10)), '.');
    EXPECT_EQ(outcome(engine, sample(5 * second, 200, other)), '.');
    EXPECT_EQ(outcome(engine, sample(6 * second, 400, other)), '.') << "match is about the process";
    EXPECT_EQ(outcome(engine, sample(7 * second, 110)), 'F');
    EXPECT_EQ(outcome(engine, sample(8 * second, 120)), '.') << "growth starts afresh";
    EXPECT_EQ(outcome(engine, sample(9 * second, 210)), 'F') << "the host's tally goes on";
}

TEST(All, AConditionByHostThatComesLastFiresForWhoMatchedLast) {
    Engine engine = engine_of(of_conditions("all", {growing, host_reclaim}, "match.comm = \"app\""));
    ProcessFacts other = process(7);
    other.comm = "other";
    for (const std::uint32_t pid : {1, 2})
        EXPECT_EQ(outcome(engine, sample(1, 10, process(pid))), '.');
    EXPECT_EQ(outcome(engine, sample(2, 110, process(1))), 'c');
    EXPECT_EQ(outcome(engine, sample(3, 110, process(2))), 'c');
    EXPECT_EQ(outcome(engine, waiting(4, other)), 'c');
    EXPECT_EQ(outcome(engine, waiting(5, other)), 'c');
    const auto decisions = engine.decide(waiting(6, other));
    ASSERT_EQ(decisions[0].outcome, Outcome::Fire);
    ASSERT_TRUE(decisions[0].about.has_value());
    EXPECT_EQ(decisions[0].about->pid, 2u);
    EXPECT_EQ(decisions[0].about->exe, "/opt/app");
    EXPECT_EQ(outcome(engine, waiting(7, other)), 'c') << "it was met before: nothing new";
    EXPECT_EQ(outcome(engine, sample(8, 111, process(1))), 'F') << "the other one at its next sample";
}

TEST(All, HostEventsComplete) {
    Engine engine = engine_of(of_conditions("all", {slow_io, txg_slow}));
    EXPECT_EQ(outcome(engine, slow(1, process(5))), 'c');
    const auto decisions = engine.decide(txg(2));
    ASSERT_EQ(decisions[0].outcome, Outcome::Fire);
    ASSERT_TRUE(decisions[0].about.has_value());
    EXPECT_EQ(decisions[0].about->pid, 5u);
    EXPECT_EQ(outcome(engine, slow(3, process(6))), 'F') << "the pool still hangs";
}

TEST(All, OnlyOfTheHost) {
    Engine engine = engine_of(of_conditions("all", {host_reclaim, txg_slow}));
    EXPECT_EQ(outcome(engine, txg(1)), 'c');
    EXPECT_EQ(outcome(engine, waiting(2, process(1))), 'c');
    EXPECT_EQ(outcome(engine, waiting(3, process(2))), 'c');
    EXPECT_EQ(outcome(engine, waiting(4, process(3))), 'F');
    EXPECT_EQ(outcome(engine, waiting(5, process(3))), 'c') << "afresh: there is nothing of a process's own";
    EXPECT_EQ(outcome(engine, txg(6)), 'c');
}

TEST(All, AConditionByCgroupHoldsForItsProcesses) {
    Engine engine =
        engine_of(of_conditions("all", {slow_io, "on = \"reclaim\"\ncount = 2\nwindow = \"10s\"\nby = \"cgroup\""}));
    EXPECT_EQ(outcome(engine, waiting(1, process(1, "/a"))), 'c');
    EXPECT_EQ(outcome(engine, waiting(2, process(2, "/a"))), 'c');
    EXPECT_EQ(outcome(engine, slow(3, process(3, "/b"))), 'c');
    EXPECT_EQ(outcome(engine, slow(4, process(3, "/a"))), 'F');
}

TEST(All, TheSameKindTwice) {
    Engine engine = engine_of(of_conditions("all", {"on = \"syscall\"\nsyscall = \"open\"\nerrno = \"any\"",
                                                    "on = \"syscall\"\nsyscall = \"fsync\"\nslower_than = \"1s\""}));
    EXPECT_EQ(outcome(engine, event(1, SyscallEvent{.name = "fsync", .duration_ns = 2 * second})), 'c');
    const auto decisions = engine.decide(event(2, SyscallEvent{.name = "open", .ret = -2}));
    EXPECT_EQ(decisions[0].outcome, Outcome::Fire);
    EXPECT_EQ(decisions[0].condition, 0u);
}

TEST(All, RssAboveHoldsAsLongAsItHolds) {
    Engine engine = engine_of(of_conditions("all", {"on = \"memory\"\nrss_above = \"100MiB\"", slow_io}));
    EXPECT_EQ(outcome(engine, sample(1 * second, 200)), 'c');
    EXPECT_EQ(outcome(engine, sample(60 * second, 200)), 'c');
    EXPECT_EQ(outcome(engine, slow(61 * second)), 'F') << "it began more than 30 s ago, and still holds";
}

TEST(All, NamesTheSampleThatMatched) {
    Engine engine = engine_of(of_conditions("all", {"on = \"memory\"\nrss_above = \"100MiB\"", slow_io}));
    EXPECT_EQ(outcome(engine, sample(1 * second, 200)), 'c');
    EXPECT_EQ(outcome(engine, sample(2 * second, 50)), '.');
    const auto decisions = engine.decide(slow(3 * second));
    ASSERT_EQ(decisions[0].outcome, Outcome::Fire) << "it was met 2 s ago";
    ASSERT_EQ(decisions[0].matches.size(), 2u);
    EXPECT_EQ(decisions[0].matches[0].t_ns, 1 * second);
    EXPECT_EQ(decisions[0].matches[0].value, 200 * MiB);
}

TEST(All, LimitsHoldAndAreCounted) {
    Engine engine = engine_of(of_conditions("all", {call_fails, slow_io}, "limit.cooldown = \"1m\""));
    EXPECT_EQ(outcome(engine, failing(1)), 'c');
    EXPECT_EQ(outcome(engine, slow(2)), 'F');
    EXPECT_EQ(outcome(engine, failing(3)), 'c');
    EXPECT_EQ(outcome(engine, slow(4)), 's');
    EXPECT_EQ(engine.counters("r").matched, 4u);
    EXPECT_EQ(engine.counters("r").suppressed, 1u);
}

TEST(All, ManyProcessesAreBounded) {
    Engine engine = engine_of(of_conditions("all", {call_fails, slow_io}));
    for (std::uint32_t pid = 1; pid <= 5000; ++pid)
        engine.decide(failing(pid, process(pid)), Answers::Firings);
    EXPECT_EQ(engine.counters("r").forgotten_keys, 2 * (5000u - 4096u)) << "a mark and a candidate each";
    EXPECT_EQ(outcome(engine, slow(6000, process(1))), 'c');
    EXPECT_EQ(outcome(engine, slow(6000, process(5000))), 'F');
}

TEST(Any, FirstThatFires) {
    Engine engine = engine_of(of_conditions("any", {call_fails + "\ncount = 2\nwindow = \"10s\"", slow_io}));
    EXPECT_EQ(outcome(engine, failing(1)), 'c');
    const auto by_io = engine.decide(slow(2));
    EXPECT_EQ(by_io[0].outcome, Outcome::Fire);
    EXPECT_EQ(by_io[0].condition, 1u);
    EXPECT_EQ(by_io[0].matches.size(), 1u);
    const auto by_calls = engine.decide(failing(3));
    EXPECT_EQ(by_calls[0].outcome, Outcome::Fire) << "the other condition's tally is its own";
    EXPECT_EQ(by_calls[0].condition, 0u);
    EXPECT_EQ(by_calls[0].matches.size(), 2u);
}

TEST(Any, OneDecisionForTwoConditionsOfAKind) {
    Engine engine = engine_of(
        of_conditions("any", {"on = \"syscall\"\nsyscall = \"open\"\nerrno = \"any\"\ncount = 2\nwindow = \"1s\"",
                              "on = \"syscall\"\nslower_than = \"1s\""}));
    EXPECT_EQ(outcome(engine, event(1, SyscallEvent{.name = "open", .ret = -2, .duration_ns = 2 * second})), 'F');
    EXPECT_EQ(outcome(engine, event(2, SyscallEvent{.name = "open", .ret = -2})), 'F')
        << "the first was counted as well";
    EXPECT_EQ(outcome(engine, event(3, SyscallEvent{.name = "read"})), '.');
    EXPECT_EQ(engine.decide(event(3, SyscallEvent{.name = "read"}))[0].why, "syscall: 'read' is none of ['open']");
}

TEST(Any, ProbesNameTheirCondition) {
    Engine engine = engine_of(of_conditions("any", {"on = \"latency\"\nprobe = \"uprobe:/a:f\"\nthreshold = \"1s\"",
                                                    "on = \"latency\"\nprobe = \"uprobe:/a:g\"\nthreshold = \"2s\""}));
    EXPECT_EQ(outcome(engine, event(1, LatencyEvent{.rule = "r", .condition = 1, .elapsed_ns = 1 * second})), '.');
    EXPECT_EQ(outcome(engine, event(2, LatencyEvent{.rule = "r", .condition = 0, .elapsed_ns = 1 * second})), 'F');
    EXPECT_EQ(outcome(engine, event(3, LatencyEvent{.rule = "r", .condition = 7, .elapsed_ns = 9 * second})), '.');
    EXPECT_EQ(outcome(engine, event(4, LatencyEvent{.rule = "other", .condition = 0, .elapsed_ns = 9 * second})), '-');
}

} // namespace
} // namespace incident::rules
