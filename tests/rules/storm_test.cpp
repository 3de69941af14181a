#include "rules/engine/storm.h"
#include "tests/rules/events.h"

#include <gmock/gmock.h>

namespace incident::rules {
namespace {

ProcessFacts of(std::uint32_t uid, const std::string &cgroup = "/system.slice/app.service") {
    return {.uid = uid, .cgroup = cgroup};
}

// 'F'ull, 'L'ight, 'c'ounted, of one signature at each of these minutes.
std::string kept_at(StormPolicy &policy, const std::vector<std::uint64_t> &minutes, const std::string &signature = "s",
                    const ProcessFacts &process = of(1000)) {
    std::string out;
    for (const std::uint64_t t : minutes) {
        const Keep keep = policy.judge(signature, "kind", process, t * minute).keep;
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
    EXPECT_EQ(policy.judge("s", "kind", of(1000), 0).similar, 1u);
    EXPECT_EQ(policy.judge("s", "kind", of(1000), 1).similar, 2u);
    EXPECT_EQ(policy.judge("s", "kind", of(1000), 2).similar, 3u);
    EXPECT_EQ(policy.judge("s", "kind", of(1000), 2).counted_before, 0u) << "only a bundle says it";
    const StormAnswer next = policy.judge("s", "kind", of(1000), 60 * minute);
    EXPECT_EQ(next.keep, Keep::Full);
    EXPECT_EQ(next.similar, 1u);
    EXPECT_EQ(next.counted_before, 3u);
    EXPECT_EQ(policy.judge("s", "kind", of(1000), 120 * minute).counted_before, 0u);
}

TEST(Storm, OneOfWhichOnlyItsKindIsKnownCountsAsTheLastOfItsKind) {
    StormPolicy policy({.full = 2, .light = 1, .window = std::chrono::hours(1)});
    EXPECT_EQ(policy.judge("r SIGSEGV:app", "r SIGSEGV:app", of(1000), 0).signature, "r SIGSEGV:app")
        << "nothing else is known";
    EXPECT_EQ(policy.judge("r SIGSEGV:abc+0x1", "r SIGSEGV:app", of(1000), 1).signature, "r SIGSEGV:abc+0x1");
    const StormAnswer same = policy.judge("r SIGSEGV:app", "r SIGSEGV:app", of(1000), 2);
    EXPECT_EQ(same.signature, "r SIGSEGV:abc+0x1");
    EXPECT_EQ(same.similar, 2u);
    EXPECT_EQ(policy.judge("r SIGSEGV:abc+0x2", "r SIGSEGV:app", of(1000), 3).similar, 1u) << "it says where";
    EXPECT_EQ(policy.judge("r SIGSEGV:app", "r SIGSEGV:app", of(1000), 4).signature, "r SIGSEGV:abc+0x2");
    EXPECT_EQ(policy.judge("r SIGSEGV:other", "r SIGSEGV:other", of(1000), 5).signature, "r SIGSEGV:other");
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

TEST(Storm, NoUserUsesUpTheQuotasOfAnother) {
    StormPolicy policy({.full = 10, .light = 50, .window = std::chrono::hours(1)});
    for (int i = 0; i < 100; ++i)
        policy.judge("s", "kind", of(1000), 0);
    for (const std::uint32_t other : {0u, 33u, 1001u, 65534u, 1'000'001u}) {
        const StormAnswer answer = policy.judge("s", "kind", of(other), 1);
        EXPECT_EQ(answer.keep, Keep::Full) << other;
        EXPECT_EQ(answer.similar, 1u);
    }
    EXPECT_EQ(policy.judge("s", "kind", of(1000), 2).keep, Keep::Count);
    const auto lines = policy.lines(10);
    ASSERT_EQ(lines.size(), 1u) << "the status adds the users up";
    EXPECT_EQ(lines[0].seen, 106u);
    EXPECT_EQ(lines[0].full, 15u);
    EXPECT_EQ(lines[0].light, 50u);
    EXPECT_EQ(lines[0].counted, 41u);
}

TEST(Storm, NoServiceUsesUpTheQuotasOfAnotherOfItsUser) {
    StormPolicy policy({.full = 1, .light = 0, .window = std::chrono::hours(1)});
    EXPECT_EQ(kept_at(policy, {1, 2}, "s", of(33, "/system.slice/a.service")), "Fc");
    EXPECT_EQ(kept_at(policy, {3, 4}, "s", of(33, "/system.slice/b.service/worker")), "Fc");
    EXPECT_EQ(kept_at(policy, {5}, "s", of(33, "/system.slice/b.service/another")), "c") << "the service makes these";
    EXPECT_EQ(kept_at(policy, {6}, "s", of(33, "/machine.slice/c.scope")), "F");
}

TEST(Storm, AUserHasNoMoreByMakingGroupsOfHerOwn) {
    StormPolicy policy({.full = 1, .light = 0, .window = std::chrono::hours(1)});
    EXPECT_EQ(kept_at(policy, {1}, "s", of(1000, "/user.slice/user-1000.slice/session-1.scope")), "F");
    EXPECT_EQ(kept_at(policy, {2}, "s", of(1000, "/user.slice/user-1000.slice/user@1000.service/app.slice/x.scope")),
              "c");
}

// As of containers that are started again and again, or of a socket's instances.
TEST(Storm, UnitsThatAreNewEachTimeAreAStormTogether) {
    StormPolicy policy({.full = 2, .light = 0, .window = std::chrono::hours(1)});
    std::string kept;
    for (int i = 0; i < 40; ++i)
        kept += kept_at(policy, {1}, "s", of(0, "/system.slice/docker-" + std::to_string(i) + ".scope"));
    EXPECT_EQ(kept, std::string(18, 'F') + std::string(22, 'c')) << "16 have their own, the rest share";
    EXPECT_EQ(kept_at(policy, {70, 71, 72}, "s", of(0, "/system.slice/docker-99.scope")), "FFc") << "after the window";
}

TEST(Storm, TheUserIsWhoeverStartedTheProgram) {
    StormPolicy policy({.full = 1, .light = 0, .window = std::chrono::hours(1)});
    ProcessFacts set_user_id = of(0);
    set_user_id.real_uid = 1000;
    EXPECT_EQ(kept_at(policy, {1, 2}, "s", set_user_id), "Fc");
    EXPECT_EQ(kept_at(policy, {3}, "s", of(0)), "F") << "root's own";
}

// Whoever makes signatures without end makes only those of her own be forgotten.
TEST(Storm, AFloodOfSignaturesForgetsNoneOfAnotherUser) {
    StormPolicy policy({.full = 1, .light = 0, .window = std::chrono::hours(1)});
    for (std::uint32_t user : {0u, 33u, 1001u})
        for (int i = 0; i < 10; ++i)
            EXPECT_EQ(kept_at(policy, {1}, std::to_string(i), of(user)), "F");
    for (int i = 0; i < 100'000; ++i)
        policy.judge("flood " + std::to_string(i), "kind " + std::to_string(i), of(1000), minute);
    for (std::uint32_t user : {0u, 33u, 1001u})
        for (int i = 0; i < 10; ++i)
            EXPECT_EQ(kept_at(policy, {2}, std::to_string(i), of(user)), "c") << "still known";
    EXPECT_EQ(policy.lines(5000).size(), 1024u - 20) << "the others' thirty are ten signatures";
}

// subuid(5): a user may take any id of her range.
TEST(Storm, AUserWithManyIdsHasOneShareOfTheMemory) {
    StormPolicy policy({.full = 1, .light = 0, .window = std::chrono::hours(1)});
    EXPECT_EQ(kept_at(policy, {1}, "s", of(33)), "F");
    for (std::uint32_t i = 0; i < 20'000; ++i)
        policy.judge("flood " + std::to_string(i), "kind", of(131'072 + i), minute);
    EXPECT_EQ(kept_at(policy, {2}, "s", of(33)), "c") << "still known";
    std::string kept;
    for (std::uint32_t i = 0; i < 40; ++i)
        kept += kept_at(policy, {3}, "t", of(196'608 + i));
    EXPECT_EQ(kept, std::string(17, 'F') + std::string(23, 'c'));
}

TEST(Storm, CanBeMoved) {
    StormPolicy first({.full = 1, .light = 0});
    kept_at(first, {1});
    StormPolicy second(std::move(first));
    EXPECT_EQ(kept_at(second, {2}), "c");
}

} // namespace
} // namespace incident::rules
