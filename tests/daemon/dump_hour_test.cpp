// The hour of dumps: both sides' places, and what of it the next daemon knows.
#include "daemon/dump/dump_hour.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unistd.h>
#include <vector>

namespace incident::daemon {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t hour = 3600ull * 1'000'000'000;
constexpr std::uint32_t root = 0, alice = 1000, bob = 1001;

class DumpHourTest : public testing::Test {
protected:
    DumpHourTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "dump-hour-XXXXXX").string();
        state = ::mkdtemp(pattern.data());
    }
    ~DumpHourTest() override { std::filesystem::remove_all(state); }

    std::string state;
    std::int32_t allowance = 0;
};

TEST_F(DumpHourTest, EachPlaceComesBackAfterAnHour) {
    DumpHour one(2, nullptr);
    EXPECT_EQ(one.left(10), 2u);
    EXPECT_TRUE(one.take(root, 10));
    EXPECT_TRUE(one.take(root, 20));
    EXPECT_EQ(one.left(30), 0u);
    const auto none = one.take(root, 30);
    ASSERT_FALSE(none);
    EXPECT_THAT(none.error().what, HasSubstr("2 were made to dump in the last hour"));
    EXPECT_EQ(one.left(10 + hour), 1u);
    EXPECT_EQ(one.left(20 + hour), 2u);
    EXPECT_EQ(one.left(21 + 2 * hour), 2u) << "never more than there are";
    EXPECT_EQ(DumpHour(0, nullptr).left(1), 0u);
}

TEST_F(DumpHourTest, WhatTheKernelSideUsesIsOfTheSameHour) {
    DumpHour one(2, &allowance);
    EXPECT_EQ(allowance, 0) << "nothing is lent before it is said";
    EXPECT_TRUE(one.lend(10));
    EXPECT_TRUE(one.lend(10));
    EXPECT_EQ(allowance, 1) << "one at a time";
    EXPECT_EQ(one.left(10), 2u) << "it is not used";
    --allowance; // the kernel side has sent one
    EXPECT_EQ(one.left(20), 1u);
    EXPECT_TRUE(one.lend(20));
    EXPECT_EQ(allowance, 0) << "whose it was is not known yet";
    one.used_lent(root, 20);
    EXPECT_TRUE(one.lend(20));
    EXPECT_EQ(allowance, 1);
    EXPECT_TRUE(one.take(root, 30)) << "the last is lent, and not used";
    EXPECT_EQ(allowance, 0);
    EXPECT_TRUE(one.lend(30));
    EXPECT_EQ(allowance, 0) << "there is none to be lent";
    EXPECT_EQ(one.left(20 + hour), 1u);
    EXPECT_EQ(one.left(30 + hour), 2u);
}

TEST_F(DumpHourTest, WhatTheKernelSideGivesBackIsNotOfTheHour) {
    DumpHour one(2, &allowance);
    EXPECT_TRUE(one.lend(10));
    --allowance;
    EXPECT_EQ(one.left(11), 1u);
    ++allowance;
    EXPECT_EQ(one.left(12), 2u);
    one.take_back_lent(13);
    EXPECT_EQ(allowance, 0);
    EXPECT_EQ(one.left(13), 2u);
}

TEST_F(DumpHourTest, NoUserTakesAllOfIt) {
    DumpHour one(10, nullptr);
    for (int i = 0; i < 8; ++i)
        EXPECT_TRUE(one.take(alice, 10)) << i;
    EXPECT_THAT(one.barred(10), testing::ElementsAre(alice));
    const auto refused = one.take(alice, 10);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().what, "8 of this user were made to dump in the last hour, the 2 that are left are for "
                                    "others ([safety] dumps_per_hour)");
    EXPECT_TRUE(one.take(root, 20));
    EXPECT_FALSE(one.take(root, 21)) << "the last is for somebody else";
    EXPECT_TRUE(one.take(bob, 22));
    for (const std::uint32_t user : {root, alice, bob, 1002u})
        EXPECT_FALSE(one.take(user, 30)) << "more users have no more than there are";
    EXPECT_THAT(one.barred(30), testing::IsEmpty()) << "nothing is left for anybody";
    EXPECT_TRUE(one.take(alice, 10 + hour));
}

TEST_F(DumpHourTest, OfFewPlacesNoneIsKept) {
    for (const std::uint32_t places : {1u, 2u, 3u}) {
        DumpHour one(places, nullptr);
        for (std::uint32_t i = 0; i < places; ++i)
            EXPECT_TRUE(one.take(alice, 10));
        EXPECT_FALSE(one.take(alice, 10));
    }
}

// However users take turns, and whoever sends: never more than the administrator allows.
TEST_F(DumpHourTest, MoreUsersAreNotMoreSignals) {
    std::uint32_t random = 1;
    const auto drawn = [&](std::uint32_t below) {
        random = random * 1664525 + 1013904223;
        return (random >> 8) % below;
    };
    for (const std::uint32_t places : {1u, 4u, 10u, 37u}) {
        DumpHour one(places, &allowance);
        std::vector<std::uint64_t> sent;
        for (std::uint64_t now = 0; now < 5 * hour; now += hour / 97) {
            const std::uint32_t user = drawn(2) ? alice : 1002 + drawn(20);
            if (drawn(2)) {
                ASSERT_TRUE(one.lend(now));
                if (allowance > 0) {
                    --allowance;
                    sent.push_back(now);
                    one.used_lent(user, now);
                }
            } else if (one.take(user, now)) {
                sent.push_back(now);
            }
            EXPECT_LE(std::ranges::count_if(sent, [&](std::uint64_t at) { return at + hour > now; }), places);
        }
        one.take_back_lent(5 * hour);
    }
}

TEST_F(DumpHourTest, ARestartKnowsWhoHasTakenWhat) {
    {
        DumpHour one(4, &allowance);
        ASSERT_TRUE(one.keep_in(state, "this", 1));
        for (int i = 0; i < 2; ++i)
            ASSERT_TRUE(one.take(alice, 10));
        ASSERT_TRUE(one.lend(20));
        --allowance;
        one.used_lent(alice, 20);
    }
    DumpHour next(4, nullptr);
    ASSERT_TRUE(next.keep_in(state, "this", 30));
    EXPECT_FALSE(next.take(alice, 30));
    EXPECT_TRUE(next.take(bob, 30));
}

TEST_F(DumpHourTest, PlacesOfAVersionThatKnewNoUsersAreNobodys) {
    std::ofstream(state + "/dumps") << "boot this\nsent 10\nmaybe 11\n";
    DumpHour one(4, nullptr);
    ASSERT_TRUE(one.keep_in(state, "this", 20));
    EXPECT_EQ(one.left(20), 2u);
    EXPECT_TRUE(one.take(alice, 20));
    EXPECT_FALSE(one.take(alice, 20));
    EXPECT_TRUE(one.take(bob, 20));
}

TEST_F(DumpHourTest, ARestartGoesOnWithTheHour) {
    {
        DumpHour one(3, &allowance);
        ASSERT_TRUE(one.keep_in(state, "this", 1));
        ASSERT_TRUE(one.take(root, 10));
        ASSERT_TRUE(one.take(root, 20));
        one.give_back(20);
        ASSERT_TRUE(one.lend(30));
    } // killed: the place that was lent is nobody's to take back
    DumpHour next(3, &allowance);
    ASSERT_TRUE(next.keep_in(state, "this", 40));
    EXPECT_EQ(next.left(40), 1u);
    EXPECT_TRUE(next.take(root, 40));
    EXPECT_EQ(next.spent(root, 50),
              "2 were made to dump in the last hour, 1 more may have been when incidentd was killed "
              "([safety] dumps_per_hour)");
    EXPECT_EQ(next.left(10 + hour), 1u);
    EXPECT_EQ(next.left(40 + hour), 3u) << "what was lent counts from the restart";
}

TEST_F(DumpHourTest, AnOrderlyEndLosesNone) {
    {
        DumpHour one(2, &allowance);
        ASSERT_TRUE(one.keep_in(state, "this", 1));
        ASSERT_TRUE(one.lend(10));
        one.take_back_lent(20);
    }
    DumpHour next(2, &allowance);
    ASSERT_TRUE(next.keep_in(state, "this", 30));
    EXPECT_EQ(next.left(30), 2u);
}

TEST_F(DumpHourTest, ABootBeginsAFreshHour) {
    {
        DumpHour one(2, nullptr);
        ASSERT_TRUE(one.keep_in(state, "this", 1));
        ASSERT_TRUE(one.take(root, 10));
    }
    DumpHour next(2, nullptr);
    ASSERT_TRUE(next.keep_in(state, "another", 5));
    EXPECT_EQ(next.left(5), 2u);
}

TEST_F(DumpHourTest, WhatIsBrokenAllowsNoMoreThanAnHour) {
    std::ofstream(state + "/dumps")
        << "boot this\nsent 99999999999999999999999\nsent\nmay\n\nsent 18446744073709551615";
    DumpHour one(4, nullptr);
    ASSERT_TRUE(one.keep_in(state, "this", 10));
    EXPECT_LE(one.left(10), 4u);
    EXPECT_EQ(one.left(10 + hour), 4u) << "times to come are taken for now";
}

// As on a full disk.
TEST_F(DumpHourTest, NothingIsTakenThatCannotBeNoted) {
    DumpHour one(2, &allowance);
    ASSERT_TRUE(one.keep_in(state, "this", 1));
    std::filesystem::create_directory(state + "/dumps"); // nothing is renamed over it
    const auto refused = one.take(root, 10);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().what, HasSubstr("noted"));
    EXPECT_FALSE(one.lend(10));
    EXPECT_EQ(allowance, 0);
    EXPECT_EQ(one.left(10), 2u);
    std::filesystem::remove(state + "/dumps");
    EXPECT_TRUE(one.take(root, 20));
    EXPECT_TRUE(one.lend(20));
    EXPECT_EQ(allowance, 1);
}

} // namespace
} // namespace incident::daemon
