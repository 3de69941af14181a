// on = "memory": samples of RSS, and when they match.

#include "tests/rules/events.h"

#include <gmock/gmock.h>

namespace incident::rules {
namespace {

Event rss_sample(std::uint64_t t_ns, std::uint64_t rss, const ProcessFacts &of = process(42)) {
    return event(t_ns, MemoryEvent{rss}, of);
}

// Samples of these MiB, a second apart.
std::string of(Engine &engine, const std::vector<std::uint64_t> &mebibytes, std::uint64_t first = 1) {
    std::string outcomes;
    for (std::size_t i = 0; i < mebibytes.size(); ++i)
        outcomes += outcome(engine, rss_sample((first + i) * second, mebibytes[i] * MiB));
    return outcomes;
}

TEST(Memory, FiresWhenItBeginsToBeAbove) {
    Engine engine = engine_of(rule_on("memory", "rss_above = \"100MiB\""));
    EXPECT_EQ(of(engine, {50, 100, 101, 200, 101, 100, 99, 150, 151}), "..F....F.");
    Engine already = engine_of(rule_on("memory", "rss_above = \"100MiB\""));
    EXPECT_EQ(of(already, {500, 500}), "F.");
}

TEST(Memory, GrowthIsFromTheLowestWithin) {
    Engine engine = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"5s\""));
    EXPECT_EQ(of(engine, {100, 150, 120, 199, 200}), "....F");
    Engine slow = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"5s\""));
    EXPECT_EQ(of(slow, {100, 119, 138, 157, 176, 195, 214, 233, 252}), ".........") << "19 MiB a second: 95 in 5 s";
    Engine dip = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"5s\""));
    EXPECT_EQ(of(dip, {150, 100, 160, 180, 190, 199, 200}), "......F") << "the lowest is 5 s old";
    Engine too_late = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"5s\""));
    EXPECT_EQ(of(too_late, {150, 100, 160, 180, 190, 199, 199, 200}), "........") << "the lowest is 6 s old";
}

TEST(Memory, GrowsAgainAfterAFiring) {
    Engine engine = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"1m\""));
    EXPECT_EQ(of(engine, {0, 100, 150, 199, 200, 300, 100, 200}), ".F..FF.F");
}

TEST(Memory, BothMustHold) {
    Engine engine = engine_of(rule_on("memory", "rss_above = \"500MiB\"\ngrowth = \"100MiB\"\nwithin = \"1m\""));
    EXPECT_EQ(of(engine, {100, 300, 500, 501}), "...F");
    Engine without = engine_of(rule_on("memory", "rss_above = \"500MiB\"\ngrowth = \"100MiB\"\nwithin = \"1m\""));
    EXPECT_EQ(of(without, {600, 650, 699, 700}), "...F");
}

TEST(Memory, SaysWhyNot) {
    Engine above = engine_of(rule_on("memory", "rss_above = \"1GiB\""));
    EXPECT_EQ(above.decide(rss_sample(1, 3 * MiB))[0].why, "rss_above: 3072 KiB, not above 1GiB");
    Engine growth = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"1m\""));
    growth.decide(rss_sample(1, 1 * MiB));
    EXPECT_EQ(growth.decide(rss_sample(2, 2 * MiB))[0].why, "growth: 1024 KiB within 1m, less than 100MiB");
    EXPECT_EQ(of(above, {2000}), "F");
    EXPECT_EQ(above.decide(rss_sample(9 * second, 2000 * MiB))[0].why,
              "memory: it matched already, and has not fallen below since");
}

TEST(Memory, ProcessesAreApart) {
    Engine engine = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"1m\""));
    EXPECT_EQ(outcome(engine, rss_sample(1, 0, process(1))), '.');
    EXPECT_EQ(outcome(engine, rss_sample(2, 200 * MiB, process(2))), '.');
    ProcessFacts reused = process(1);
    reused.start_boot_ns = 5;
    EXPECT_EQ(outcome(engine, rss_sample(3, 200 * MiB, reused)), '.');
    EXPECT_EQ(outcome(engine, rss_sample(4, 200 * MiB, process(1))), 'F');
}

TEST(Memory, AFiringNamesItsSamples) {
    Engine engine = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"1m\""));
    EXPECT_EQ(of(engine, {80, 50, 90, 70, 100}), ".....");
    const auto decisions = engine.decide(rss_sample(6 * second, 150 * MiB));
    ASSERT_EQ(decisions[0].outcome, Outcome::Fire);
    std::vector<std::uint64_t> rss;
    for (const Matched &match : decisions[0].matches)
        rss.push_back(match.value / MiB);
    EXPECT_THAT(rss, testing::ElementsAre(50, 70, 100, 150)) << "from the lowest on, what stayed";
    EXPECT_EQ(decisions[0].matches_total, 4u);
}

TEST(Memory, CountCountsHowOftenItMatched) {
    Engine engine = engine_of(rule_on("memory", "rss_above = \"100MiB\"\ncount = 2\nwindow = \"1m\""));
    EXPECT_EQ(of(engine, {150, 160, 50, 150}), "c..F");
    Engine growth = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"1m\"\ncount = 2\nwindow = \"1m\""));
    EXPECT_EQ(of(growth, {0, 100, 150, 200}), ".c.F");
}

// A steady leak over many samples: the bounded memory neither misses it for long nor
// invents it.
TEST(Memory, ManySamplesWithinALongTime) {
    Engine engine = engine_of(rule_on("memory", "growth = \"1GiB\"\nwithin = \"1h\""));
    std::size_t fired = 0;
    for (std::uint64_t i = 0; i < 3600 && fired == 0; ++i) // 300 KiB a second: 1 GiB in 58.3 minutes
        if (outcome(engine, rss_sample(i * second, i * 300 * KiB)) == 'F')
            fired = i;
    EXPECT_EQ(fired, 3496u) << "the first rss_sample 1 GiB above the first of all";
    Engine slower = engine_of(rule_on("memory", "growth = \"1GiB\"\nwithin = \"1h\""));
    for (std::uint64_t i = 0; i < 20000; ++i) // 290 KiB a second: never 1 GiB in an hour
        ASSERT_EQ(outcome(slower, rss_sample(i * second, i * 290 * KiB)), '.') << i;
}

TEST(Memory, ProcessesThatAreGoneAreNotCountedAsForgotten) {
    Engine engine = engine_of(rule_on("memory", "growth = \"100MiB\"\nwithin = \"1m\""));
    for (std::uint32_t pid = 1; pid <= 20000; ++pid)
        engine.decide(rss_sample(pid * second, 1, process(pid)));
    EXPECT_EQ(engine.counters("r").forgotten_keys, 0u);
}

} // namespace
} // namespace incident::rules
