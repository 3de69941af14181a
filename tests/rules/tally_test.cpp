// count, stalled and window, by process, cgroup and host.

#include "rules/engine/tally_memory.h"
#include "tests/rules/events.h"

#include <gmock/gmock.h>

namespace incident::rules {
namespace {

Event failing_call(std::uint64_t t_ns, const ProcessFacts &of = process(42)) {
    return event(t_ns, SyscallEvent{.name = "openat", .ret = -2, .duration_ns = 1 * ms}, of);
}
Event blocked_for(std::uint64_t t_ns, std::uint64_t stalled, const ProcessFacts &of = process(42)) {
    return event(t_ns, ReclaimEvent{.stalled_ns = stalled}, of);
}

TallyKey of_pid(std::size_t pid) {
    return {TallyBy::Process, process(static_cast<std::uint32_t>(pid))};
}

std::string fired_at(Engine &engine, const std::vector<std::uint64_t> &times) {
    std::string outcomes;
    for (const std::uint64_t t : times)
        outcomes += outcome(engine, failing_call(t));
    return outcomes;
}

const std::string three_in_ten = "errno = \"any\"\ncount = 3\nwindow = \"10s\"";

TEST(Tally, CountWithinTheWindow) {
    Engine engine = engine_of(rule_on("syscall", three_in_ten));
    EXPECT_EQ(fired_at(engine, {0, 5 * second, 10 * second}), "ccF") << "ten seconds apart are within ten seconds";
    EXPECT_EQ(fired_at(engine, {100 * second, 105 * second, 110 * second + 1}), "ccc");
    EXPECT_EQ(fired_at(engine, {115 * second}), "F") << "105, 110, 115";
}

TEST(Tally, AFiringStartsItAfresh) {
    Engine engine = engine_of(rule_on("syscall", three_in_ten));
    EXPECT_EQ(fired_at(engine, {1, 2, 3, 4, 5, 6, 7}), "ccFccFc");
}

TEST(Tally, ASuppressedFiringStartsItAfresh) {
    Engine engine = engine_of(rule_on("syscall", three_in_ten + "\nlimit.cooldown = \"1h\""));
    EXPECT_EQ(fired_at(engine, {1, 2, 3, 4, 5, 6, 7}), "ccFccsc");
    const RuleCounters counters = engine.counters("r");
    EXPECT_EQ(counters.matched, 7u);
    EXPECT_EQ(counters.fired, 1u);
    EXPECT_EQ(counters.suppressed, 1u);
}

// A user whose processes come and go in a loop makes only matches of her own be forgotten.
TEST(Tally, NoFloodOfAnotherUsersProcessesForgetsAMatch) {
    Engine engine = engine_of(rule_on("syscall", three_in_ten));
    ProcessFacts flood = process(1);
    flood.uid = 1001;
    const auto others = [&] {
        for (int i = 0; i < 10'000; ++i) {
            flood.pid = 100 + static_cast<std::uint32_t>(i);
            outcome(engine, failing_call(second, flood));
        }
    };
    std::string own;
    for (int i = 0; i < 3; ++i) {
        own += outcome(engine, failing_call(second));
        others();
    }
    EXPECT_EQ(own, "ccF");
}

// The same by many matches of few processes: the memory of matches is shared as well.
TEST(Tally, NoFloodOfAnotherUsersMatchesForgetsAMatch) {
    Engine engine = engine_of(rule_on("syscall", "errno = \"any\"\ncount = 100000\nwindow = \"10s\""));
    for (std::uint32_t pid = 1; pid <= 300; ++pid)
        outcome(engine, failing_call(second, process(pid)));
    ProcessFacts flood = process(1);
    flood.uid = 1001;
    for (std::uint32_t pid = 1000; pid < 1270; ++pid)
        for (int i = 0; i < 1024; ++i) {
            flood.pid = pid;
            outcome(engine, failing_call(second, flood));
        }
    EXPECT_EQ(engine.decide(failing_call(second, process(7)))[0].why, "count: 2 of 100000 within 10s");
}

TEST(Tally, SaysHowManyAreMissing) {
    Engine engine = engine_of(rule_on("syscall", three_in_ten));
    engine.decide(failing_call(1));
    EXPECT_EQ(engine.decide(failing_call(2))[0].why, "count: 2 of 3 within 10s");
    Engine reclaim = engine_of(rule_on("reclaim", "count = 5\nstalled = \"900ms\"\nwindow = \"30s\""));
    EXPECT_EQ(reclaim.decide(blocked_for(1, 120 * ms))[0].why, "count: 1 of 5, stalled: 120ms of 900ms within 30s");
}

TEST(Tally, FiringNamesItsMatches) {
    Engine engine = engine_of(rule_on("reclaim", "stalled = \"100ms\"\nwindow = \"10s\""));
    engine.decide(blocked_for(0, 20 * ms)); // out of the window by then
    engine.decide(blocked_for(5 * second, 40 * ms));
    engine.decide(blocked_for(6 * second, 30 * ms));
    const auto decisions = engine.decide(blocked_for(12 * second, 31 * ms));
    ASSERT_EQ(decisions.size(), 1u);
    const Decision &d = decisions[0];
    EXPECT_EQ(d.outcome, Outcome::Fire);
    EXPECT_EQ(d.why, "");
    ASSERT_EQ(d.matches.size(), 3u);
    EXPECT_EQ(d.matches[0].t_ns, 5 * second);
    EXPECT_EQ(d.matches[0].value, 40 * ms);
    EXPECT_EQ(d.matches[2].t_ns, 12 * second);
    EXPECT_EQ(d.matches_total, 3u);
    EXPECT_EQ(d.value_total, 101 * ms);
}

TEST(Tally, EitherThatManyOrThatMuch) {
    const std::string rule = rule_on("reclaim", "count = 3\nstalled = \"1s\"\nwindow = \"1m\"");
    Engine many = engine_of(rule), much = engine_of(rule);
    EXPECT_EQ(outcome(many, blocked_for(1, 1)), 'c');
    EXPECT_EQ(outcome(many, blocked_for(2, 1)), 'c');
    EXPECT_EQ(outcome(many, blocked_for(3, 1)), 'F');
    EXPECT_EQ(outcome(much, blocked_for(1, 999 * ms)), 'c');
    EXPECT_EQ(outcome(much, blocked_for(2, 1 * ms)), 'F');
}

TEST(Tally, OneLongWaitIsEnoughTime) {
    Engine engine = engine_of(rule_on("reclaim", "stalled = \"1s\"\nwindow = \"10s\""));
    EXPECT_EQ(outcome(engine, blocked_for(1, 20 * second)), 'F');
}

// Three matches of different processes: who is counted together?
std::string three(const std::string &by) {
    Engine engine = engine_of(rule_on("syscall", "errno = \"any\"\ncount = 2\nwindow = \"10s\"\nby = \"" + by + "\""));
    std::string out;
    out += outcome(engine, failing_call(1, process(1, "/a")));
    out += outcome(engine, failing_call(2, process(2, "/b")));
    out += outcome(engine, failing_call(3, process(3, "/b")));
    ProcessFacts reused = process(1, "/a");
    reused.start_boot_ns += 1;
    out += outcome(engine, failing_call(4, reused));
    return out;
}

TEST(Tally, ByWhom) {
    EXPECT_EQ(three("process"), "cccc") << "a reused pid is another process";
    EXPECT_EQ(three("cgroup"), "ccFF");
    EXPECT_EQ(three("host"), "cFcF");
}

TEST(Tally, TimesOutOfOrder) {
    Engine engine = engine_of(rule_on("syscall", three_in_ten));
    EXPECT_EQ(fired_at(engine, {10 * second, 9 * second, 8 * second}), "ccF");
    EXPECT_EQ(fired_at(engine, {100 * second, 101 * second, 80 * second}), "ccc")
        << "older than the window: not counted";
    EXPECT_EQ(fired_at(engine, {92 * second}), "F");

    Engine ordered = engine_of(rule_on("syscall", three_in_ten));
    ordered.decide(failing_call(7));
    ordered.decide(failing_call(5));
    const auto decisions = ordered.decide(failing_call(6));
    ASSERT_EQ(decisions[0].matches.size(), 3u);
    EXPECT_EQ(decisions[0].matches[0].t_ns, 5u);
    EXPECT_EQ(decisions[0].matches[1].t_ns, 6u);
    EXPECT_EQ(decisions[0].matches[2].t_ns, 7u);
}

TEST(Tally, LargeCountsAreReachedExactlyWhenNothingExpires) {
    Engine engine = engine_of(rule_on("syscall", "errno = \"any\"\ncount = 50000\nwindow = \"1h\""));
    std::size_t first = 0;
    std::vector<Decision> fired;
    for (std::size_t i = 1; i <= 60000 && first == 0; ++i) {
        auto decisions = engine.decide(failing_call(i * ms), Answers::Firings);
        if (!decisions.empty()) {
            first = i;
            fired = std::move(decisions);
        }
    }
    ASSERT_EQ(first, 50000u);
    EXPECT_EQ(fired[0].matches.size(), most_matches);
    EXPECT_EQ(fired[0].matches.back().t_ns, 50000 * ms);
    EXPECT_EQ(fired[0].matches.front().t_ns, (50000 - most_matches + 1) * ms);
    EXPECT_EQ(fired[0].matches_total, 50000u);
    EXPECT_EQ(fired[0].value_total, 50000 * ms);
}

// With a steady rate the true number in the window is known: what is remembered of it
// beyond the newest may be short by a 64th, never too much.
TEST(Tally, OldMatchesAreAddedUpWithoutTooMuch) {
    TallyMemory memory;
    const Tally tally{.count = 1'000'000, .window = std::chrono::seconds(10)};
    for (std::uint64_t i = 0; i < 50000; ++i) {
        const auto answer = memory.add(tally, of_pid(1), i * ms, 1);
        const std::uint64_t truth = std::min<std::uint64_t>(i + 1, 10001);
        ASSERT_LE(answer.count, truth);
        ASSERT_GE(answer.count, truth - std::min<std::uint64_t>(truth, 10000 / TallyMemory::pieces + 2));
        ASSERT_EQ(answer.value, answer.count);
    }
    EXPECT_EQ(memory.forgotten(), 0u);
}

TEST(Tally, KeysAreBoundedAndForgottenOnesCounted) {
    Engine engine = engine_of(rule_on("syscall", "errno = \"any\"\ncount = 2\nwindow = \"1h\""));
    for (std::uint32_t pid = 1; pid <= 5000; ++pid)
        engine.decide(failing_call(pid, process(pid)));
    EXPECT_EQ(engine.counters("r").forgotten_keys, 5000u - 4096u);
    EXPECT_EQ(outcome(engine, failing_call(6000, process(1))), 'c') << "forgotten";
    EXPECT_EQ(outcome(engine, failing_call(6001, process(5000))), 'F') << "remembered";
}

// What is forgotten with its key makes room for others.
TEST(Tally, AFloodOfKeysForgetsNoMoreThanItMust) {
    TallyMemory memory;
    const Tally tally{.count = 10, .window = std::chrono::hours(1)};
    const std::uint64_t keys = TallyMemory::most_remembered + 5000;
    for (std::uint64_t key = 0; key < keys; ++key)
        memory.add(tally, of_pid(key), key, 1);
    EXPECT_EQ(memory.forgotten(), keys - 4096);
    EXPECT_EQ(memory.add(tally, of_pid(keys - 4000), keys, 1).count, 2u);
}

TEST(Tally, KeysWithoutUseAreNotCountedAsForgotten) {
    Engine engine = engine_of(rule_on("syscall", "errno = \"any\"\ncount = 2\nwindow = \"1s\""));
    for (std::uint32_t pid = 1; pid <= 10000; ++pid)
        engine.decide(failing_call(pid * 10 * ms, process(pid)));
    EXPECT_EQ(engine.counters("r").forgotten_keys, 0u);
}

TEST(Tally, MatchesAreBoundedOverAllKeys) {
    TallyMemory memory;
    const Tally tally{.count = 1'000'000, .window = std::chrono::hours(1)};
    const std::size_t full_keys = TallyMemory::most_remembered / TallyMemory::most_exact;
    for (std::size_t key = 0; key < full_keys + 3; ++key)
        for (std::uint64_t i = 0; i < 1100; ++i)
            memory.add(tally, of_pid(key), i, 1);
    EXPECT_EQ(memory.forgotten(), 3u);
    EXPECT_EQ(memory.add(tally, of_pid(full_keys + 2), 2000, 1).count, 1101u) << "the newest stays";
    EXPECT_EQ(memory.add(tally, of_pid(0), 2000, 1).count, 1u) << "the oldest is gone";
}

TEST(Tally, TheLimitOfAHostRuleIsTheRules) {
    Engine engine = engine_of(rule_on("reclaim", "count = 2\nwindow = \"10s\"\nlimit.cooldown = \"1h\""));
    EXPECT_EQ(outcome(engine, blocked_for(1, 1, process(1))), 'c');
    EXPECT_EQ(outcome(engine, blocked_for(2, 1, process(2))), 'F');
    ProcessFacts other = process(3);
    other.exe = "/other";
    EXPECT_EQ(outcome(engine, blocked_for(3, 1, other)), 'c');
    EXPECT_EQ(outcome(engine, blocked_for(4, 1, other)), 's');
}

TEST(Tally, MatchSaysWhoseMatchesCountAlsoByHost) {
    Engine engine = engine_of(rule_on("reclaim", "count = 2\nwindow = \"10s\"\nmatch.comm = \"app\""));
    ProcessFacts other = process(3);
    other.comm = "other";
    EXPECT_EQ(outcome(engine, blocked_for(1, 1, other)), '.');
    EXPECT_EQ(outcome(engine, blocked_for(2, 1, process(1))), 'c');
    EXPECT_EQ(outcome(engine, blocked_for(3, 1, process(2))), 'F');
}

TEST(Tally, MatchesBeforeADisabledOrChangedRuleAreGone) {
    const std::string rule = rule_on("syscall", three_in_ten);
    Engine engine = engine_of(rule);
    EXPECT_EQ(fired_at(engine, {1, 2}), "cc");
    engine.replace(good_rules(rule));
    EXPECT_EQ(fired_at(engine, {3}), "F") << "the same rule goes on";
    EXPECT_EQ(fired_at(engine, {4, 5}), "cc");
    engine.replace(good_rules(rule_on("syscall", three_in_ten + "\nenabled = false")));
    EXPECT_EQ(fired_at(engine, {6}), "-");
    engine.replace(good_rules(rule));
    EXPECT_EQ(fired_at(engine, {7}), "c");
    EXPECT_EQ(engine.counters("r").fired, 1u);
}

TEST(Tally, WithoutAnswersNothingIsSaidOfWhatDoesNotFire) {
    Engine engine = engine_of(rule_on("syscall", three_in_ten));
    EXPECT_TRUE(engine.decide(event(1, SyscallEvent{.name = "read"}), Answers::Firings).empty());
    EXPECT_TRUE(engine.decide(failing_call(2), Answers::Firings).empty());
    EXPECT_TRUE(engine.decide(failing_call(3), Answers::Firings).empty());
    const auto decisions = engine.decide(failing_call(4), Answers::Firings);
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_EQ(decisions[0].outcome, Outcome::Fire);
    EXPECT_EQ(engine.counters("r").matched, 3u);
}

} // namespace
} // namespace incident::rules
