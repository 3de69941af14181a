// Recorded firings against edited rules.

#include "rules/engine/replay.h"
#include "tests/rules/events.h"

#include <gmock/gmock.h>

namespace incident::rules {
namespace {

using testing::ElementsAre;

// Runs events through a rule as the daemon does, and keeps what a bundle would.
std::vector<Recorded> record(const std::string &text, const std::vector<Event> &events) {
    Engine engine = engine_of(text);
    std::vector<Recorded> recorded;
    for (const Event &event : events)
        for (Decision &decision : engine.decide(event, Answers::Firings))
            if (decision.outcome == Outcome::Fire)
                recorded.push_back({decision.rule->name, good_rules(decision.rule->text).at(0), decision.condition,
                                    event, std::move(decision.matches), decision.matches_total, decision.value_total});
    return recorded;
}

// "r: fire", "r: suppressed (…)", "r: no (…)" of each firing and rule.
std::vector<std::string> replayed(const std::string &rules, const std::vector<Recorded> &recorded) {
    std::vector<std::string> out;
    for (const auto &answers : replay(good_rules(rules), recorded))
        for (const Replayed &answer : answers)
            out.push_back(answer.rule + (answer.outcome == Outcome::Fire         ? ": fire"
                                         : answer.outcome == Outcome::Suppressed ? ": suppressed (" + answer.why + ")"
                                                                                 : ": no (" + answer.why + ")"));
    return out;
}

Event crash(std::uint64_t t_ns, int signal = SIGSEGV) {
    return event(t_ns, SignalEvent{.number = signal, .fatal = true, .from_kernel = true});
}
Event reclaiming(std::uint64_t t_ns, std::uint64_t stalled) {
    return event(t_ns, ReclaimEvent{.stalled_ns = stalled});
}

TEST(Replay, TheSameRulesFireAgain) {
    const std::string rule = rule_on("signal", "");
    EXPECT_THAT(replayed(rule, record(rule, {crash(1), crash(2)})), ElementsAre("r: fire", "r: fire"));
}

TEST(Replay, EachUserHasALimitOfHerOwn) {
    const auto by = [](std::uint64_t t_ns, std::uint32_t uid, std::optional<std::uint32_t> real_uid) {
        Event event = crash(t_ns);
        event.process.uid = uid;
        event.process.real_uid = real_uid;
        return event;
    };
    constexpr std::uint32_t not_in_the_bundle = ~0u;
    const auto recorded =
        record(rule_on("signal", ""),
               {by(1 * second, 1000, {}), by(2 * second, 1000, {}), by(3 * second, 0, {}), by(4 * second, 0, 1000),
                by(5 * second, 0, not_in_the_bundle), by(6 * second, 0, not_in_the_bundle)});
    const std::string held = "r: suppressed (limit.cooldown: 1s after the last firing, less than 1m)";
    EXPECT_THAT(replayed(rule_on("signal", "limit = { cooldown = \"1m\", by = \"exe\" }"), recorded),
                ElementsAre("r: fire", held, "r: fire",
                            "r: suppressed (limit.cooldown: 3s after the last firing, less than 1m)", "r: fire", held));
}

TEST(Replay, EditedRulesSayWhyNot) {
    const auto recorded = record(rule_on("signal", ""), {crash(5 * second), crash(6 * second, SIGABRT)});
    EXPECT_THAT(
        replayed(rule_on("signal", "signals = [\"SIGABRT\"]") + rule_on("signal", "match.comm = \"other\"", "m") +
                     rule_on("signal", "limit.cooldown = \"1m\"", "l") + rule_on("signal", "enabled = false", "off") +
                     rule_on("oom", "", "oom"),
                 recorded),
        ElementsAre("r: no (signals: SIGSEGV is none of [SIGABRT])", "m: no (match.comm: 'app' is none of ['other'])",
                    "l: fire", "off: no (enabled: the rule is turned off)",
                    "oom: no (on: the firing was of \"signal\", the rule is on = \"oom\")", //
                    "r: fire", "m: no (match.comm: 'app' is none of ['other'])",
                    "l: suppressed (limit.cooldown: 1s after the last firing, less than 1m)",
                    "off: no (enabled: the rule is turned off)",
                    "oom: no (on: the firing was of \"signal\", the rule is on = \"oom\")"));
}

std::vector<Event> waits(std::size_t count, std::uint64_t stalled, std::uint64_t apart) {
    std::vector<Event> events;
    for (std::size_t i = 0; i < count; ++i)
        events.push_back(reclaiming((i + 1) * apart, stalled));
    return events;
}

TEST(Replay, TalliesAreMadeOfTheRecordedMatches) {
    const auto recorded = record(rule_on("reclaim", "count = 20\nwindow = \"30s\""), waits(20, 5 * ms, second));
    ASSERT_EQ(recorded.size(), 1u);
    const auto with = [&](const std::string &lines) { return replayed(rule_on("reclaim", lines), recorded).at(0); };
    EXPECT_EQ(with("count = 20\nwindow = \"30s\""), "r: fire");
    EXPECT_EQ(with("count = 21\nwindow = \"30s\""), "r: no (count: 20 of 21 within 30s)");
    EXPECT_EQ(with("count = 20\nwindow = \"10s\""), "r: no (count: 11 of 20 within 10s)");
    EXPECT_EQ(with("count = 11\nwindow = \"10s\""), "r: fire");
    EXPECT_EQ(with("stalled = \"100ms\"\nwindow = \"30s\""), "r: fire");
    EXPECT_EQ(with("stalled = \"101ms\"\nwindow = \"30s\""), "r: no (stalled: 100ms of 101ms within 30s)");
    EXPECT_EQ(with("slower_than = \"5ms\""), "r: fire");
    EXPECT_EQ(with("slower_than = \"6ms\""), "r: no (slower_than: took 5ms, less than 6ms)");
}

TEST(Replay, SaysWhenItWouldHaveFired) {
    const auto recorded = record(rule_on("reclaim", "count = 20\nwindow = \"30s\""), waits(20, 5 * ms, second));
    const auto answers = replay(good_rules(rule_on("reclaim", "count = 15\nwindow = \"30s\"")), recorded);
    EXPECT_EQ(answers.at(0).at(0).t_ns, 15 * second);
}

TEST(Replay, MoreMatchesThanABundleHolds) {
    const std::string rule = rule_on("reclaim", "count = 5000\nwindow = \"1m\"");
    const auto recorded = record(rule, waits(5000, ms, ms));
    ASSERT_EQ(recorded.size(), 1u);
    ASSERT_EQ(recorded[0].matches.size(), most_matches);
    EXPECT_EQ(replayed(rule, recorded).at(0), "r: fire");
    EXPECT_EQ(replayed(rule_on("reclaim", "stalled = \"5s\"\nwindow = \"1m\""), recorded).at(0), "r: fire");
    EXPECT_EQ(replayed(rule_on("reclaim", "count = 5001\nwindow = \"1m\""), recorded).at(0),
              "r: no (count: 5000 of 5001 within 1m)");
}

TEST(Replay, Memory) {
    const std::string rule = rule_on("memory", "growth = \"100MiB\"\nwithin = \"1m\"");
    std::vector<Event> events;
    for (std::uint64_t i = 0; i <= 10; ++i)
        events.push_back(event((i + 1) * second, MemoryEvent{(500 + i * 10) * MiB}));
    const auto recorded = record(rule, events);
    ASSERT_EQ(recorded.size(), 1u);
    const auto with = [&](const std::string &lines) { return replayed(rule_on("memory", lines), recorded).at(0); };
    EXPECT_EQ(with("growth = \"100MiB\"\nwithin = \"1m\""), "r: fire");
    EXPECT_EQ(with("growth = \"100MiB\"\nwithin = \"5s\""), "r: no (growth: 51200 KiB within 5s, less than 100MiB)");
    EXPECT_EQ(with("growth = \"101MiB\"\nwithin = \"1m\""), "r: no (growth: 102400 KiB within 1m, less than 101MiB)");
    EXPECT_EQ(with("rss_above = \"550MiB\""), "r: fire");
    EXPECT_EQ(with("rss_above = \"600MiB\""), "r: no (rss_above: 614400 KiB, not above 600MiB)");
}

std::string latency(const std::string &function, const std::string &threshold, const std::string &name = "r") {
    return rule_on("latency", "probe = \"uprobe:/a:" + function + "\"\nthreshold = \"" + threshold + "\"", name);
}

TEST(Replay, ProbesAreComparedByPlaceNotByTheRulesName) {
    const auto recorded = record(latency("f", "1s"), {event(1, LatencyEvent{.rule = "r", .elapsed_ns = 2 * second})});
    EXPECT_THAT(
        replayed(latency("f", "3s") + latency("f", "2s", "renamed") + latency("g", "1s", "elsewhere"), recorded),
        ElementsAre("r: no (threshold: took 2s, less than 3s)", "renamed: fire",
                    "elsewhere: no (probe: it was recorded at 'uprobe:/a:f', the rule is at 'uprobe:/a:g')"));
}

TEST(Replay, WithoutTheRuleOfThenTheNameDecides) {
    auto recorded = record(latency("f", "1s"), {event(1, LatencyEvent{.rule = "r", .elapsed_ns = 2 * second})});
    recorded.at(0).rule_then.reset();
    EXPECT_THAT(replayed(latency("f", "1s") + latency("f", "1s", "other"), recorded),
                ElementsAre("r: fire", "other: no (probe: it was recorded at that of rule 'r', not of 'other')"));
}

TEST(Replay, Tracepoints) {
    const auto rule = [](const std::string &filter) {
        return rule_on("tracepoint", "tracepoint = \"sched:sched_switch\"\nfilter = \"" + filter + "\"");
    };
    std::vector<std::uint8_t> blocked(64);
    blocked[32] = 2;
    const auto recorded = record(rule("prev_state == 2"), {event(1, TracepointEvent{"r", 0, blocked})});
    ASSERT_EQ(recorded.size(), 1u);
    EXPECT_EQ(replayed(rule("prev_state & 2"), recorded).at(0), "r: fire");
    EXPECT_EQ(replayed(rule("prev_state == 1"), recorded).at(0), "r: no (filter: 'prev_state == 1' does not hold)");
}

std::string all_of(const std::string &within, const std::string &errno_name) {
    return rule_on("all", "within = \"" + within + "\"") +
           "[[rule.condition]]\non = \"reclaim\"\nslower_than = \"1ms\"\n" +
           "[[rule.condition]]\non = \"syscall\"\nsyscall = \"openat\"\nerrno = \"" + errno_name + "\"\n";
}

TEST(Replay, AllOfSeveralConditions) {
    const auto recorded = record(all_of("30s", "ENOENT"),
                                 {reclaiming(1 * second, 5 * ms), event(21 * second, SyscallEvent{"openat", -2})});
    ASSERT_EQ(recorded.size(), 1u);
    EXPECT_EQ(replayed(all_of("30s", "ENOENT"), recorded).at(0), "r: fire");
    EXPECT_EQ(replayed(all_of("10s", "ENOENT"), recorded).at(0),
              "r: no (all: condition 1 (\"reclaim\") is not met within 10s)");
    EXPECT_EQ(replayed(all_of("30s", "EMFILE"), recorded).at(0), "r: no (errno: ENOENT is none of [EMFILE])");
}

TEST(Replay, OddRecordsAreTaken) {
    Recorded bare{.rule = "r", .condition = 7, .event = reclaiming(5, 5 * ms)};
    bare.matches = {{9, 1, 99}, {5, 5 * ms, 7}, {1, 1, 7}};
    bare.matches_total = UINT64_MAX;
    EXPECT_EQ(replayed(rule_on("reclaim", "slower_than = \"5ms\""), {bare}).at(0), "r: fire");
    EXPECT_TRUE(replay({}, {bare}).at(0).empty());
    EXPECT_TRUE(replay(good_rules(rule_on("oom", "")), {}).empty());
}

} // namespace
} // namespace incident::rules
