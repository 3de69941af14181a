#include "rules/engine/storm.h"
#include "tests/rules/events.h"

#include <gmock/gmock.h>

namespace incident::rules {
namespace {

// 'F'ull, 'L'ight, 'c'ounted, of one signature at each of these minutes.
std::string kept_at(StormPolicy &policy, const std::vector<std::uint64_t> &minutes,
                    const std::string &signature = "s") {
    std::string out;
    for (const std::uint64_t t : minutes) {
        const Keep keep = policy.judge(signature, "kind", t * minute).keep;
        out += keep == Keep::Full ? 'F' : keep == Keep::Light ? 'L' : 'c';
    }
    return out;
}

TEST(Storm, FullThenLightThenCounted) {
    StormPolicy policy({.full = 2, .light = 3, .window = std::chrono::hours(1)});
    EXPECT_EQ(kept_at(policy, {0, 1, 2, 3, 4, 5, 6}), "FFLLLcc");
    EXPECT_EQ(kept_at(policy, {7}, "other"), "F") << "each signature has its own";
    EXPECT_EQ(policy.counted(), 2u);
}

TEST(Storm, BeginsAnewAfterTheWindow) {
    StormPolicy policy({.full = 1, .light = 1, .window = std::chrono::hours(1)});
    EXPECT_EQ(kept_at(policy, {10, 20, 30, 69, 70, 71, 72}), "FLccFLc") << "the window is from the first on";
    EXPECT_EQ(kept_at(policy, {500}), "F");
}

TEST(Storm, SaysHowManyAlikeAndHowManyOnlyCounted) {
    StormPolicy policy({.full = 1, .light = 0, .window = std::chrono::hours(1)});
    EXPECT_EQ(policy.judge("s", "kind", 0).similar, 1u);
    EXPECT_EQ(policy.judge("s", "kind", 1).similar, 2u);
    EXPECT_EQ(policy.judge("s", "kind", 2).similar, 3u);
    EXPECT_EQ(policy.judge("s", "kind", 2).counted_before, 0u) << "only a bundle says it";
    const StormAnswer next = policy.judge("s", "kind", 60 * minute);
    EXPECT_EQ(next.keep, Keep::Full);
    EXPECT_EQ(next.similar, 1u);
    EXPECT_EQ(next.counted_before, 3u);
    EXPECT_EQ(policy.judge("s", "kind", 120 * minute).counted_before, 0u);
}

TEST(Storm, OneOfWhichOnlyItsKindIsKnownCountsAsTheLastOfItsKind) {
    StormPolicy policy({.full = 2, .light = 1, .window = std::chrono::hours(1)});
    EXPECT_EQ(policy.judge("r SIGSEGV:app", "r SIGSEGV:app", 0).signature, "r SIGSEGV:app") << "nothing else is known";
    EXPECT_EQ(policy.judge("r SIGSEGV:abc+0x1", "r SIGSEGV:app", 1).signature, "r SIGSEGV:abc+0x1");
    const StormAnswer same = policy.judge("r SIGSEGV:app", "r SIGSEGV:app", 2);
    EXPECT_EQ(same.signature, "r SIGSEGV:abc+0x1");
    EXPECT_EQ(same.similar, 2u);
    EXPECT_EQ(policy.judge("r SIGSEGV:abc+0x2", "r SIGSEGV:app", 3).similar, 1u) << "it says where";
    EXPECT_EQ(policy.judge("r SIGSEGV:app", "r SIGSEGV:app", 4).signature, "r SIGSEGV:abc+0x2");
    EXPECT_EQ(policy.judge("r SIGSEGV:other", "r SIGSEGV:other", 5).signature, "r SIGSEGV:other");
}

TEST(Storm, TimesOutOfOrder) {
    StormPolicy policy({.full = 1, .light = 1, .window = std::chrono::hours(1)});
    EXPECT_EQ(kept_at(policy, {100, 50, 10}), "FLc");
    EXPECT_EQ(kept_at(policy, {160, 150}), "FL");
}

TEST(Storm, Lines) {
    StormPolicy policy({.full = 1, .light = 1, .window = std::chrono::hours(1)});
    kept_at(policy, {1, 2, 3, 4}, "often");
    kept_at(policy, {5}, "once");
    kept_at(policy, {6, 7}, "twice");
    const auto lines = policy.lines(2);
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines[0].signature, "often");
    EXPECT_EQ(lines[0].seen, 4u);
    EXPECT_EQ(lines[0].full, 1u);
    EXPECT_EQ(lines[0].light, 1u);
    EXPECT_EQ(lines[0].counted, 2u);
    EXPECT_EQ(lines[0].last_ns, 4 * minute);
    EXPECT_EQ(lines[1].signature, "twice");
    EXPECT_EQ(policy.lines(10).size(), 3u);
}

TEST(Storm, SignaturesAreBounded) {
    StormPolicy policy({.full = 1, .light = 0, .window = std::chrono::hours(1)});
    for (int i = 0; i < 1024; ++i)
        EXPECT_EQ(kept_at(policy, {1}, std::to_string(i)), "F");
    EXPECT_EQ(kept_at(policy, {2}, "0"), "c"); // seen now: 1 is the oldest
    EXPECT_EQ(kept_at(policy, {3}, "new"), "F");
    EXPECT_EQ(policy.lines(5000).size(), 1024u);
    EXPECT_EQ(kept_at(policy, {4}, "0"), "c");
    EXPECT_EQ(kept_at(policy, {4}, "1"), "F") << "forgotten, so it starts afresh";
    EXPECT_EQ(policy.counted(), 2u);
}

TEST(Storm, CanBeMoved) {
    StormPolicy first({.full = 1, .light = 0});
    kept_at(first, {1});
    StormPolicy second(std::move(first));
    EXPECT_EQ(kept_at(second, {2}), "c");
}

} // namespace
} // namespace incident::rules
