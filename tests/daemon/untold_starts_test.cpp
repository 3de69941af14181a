#include "daemon/watch/untold_starts.h"

#include <gtest/gtest.h>

namespace incident::daemon {
namespace {

constexpr std::uint64_t second = 1'000'000'000;

TEST(UntoldPace, NothingWasRefused) {
    UntoldPace pace;
    EXPECT_FALSE(pace.due(0, second));
    EXPECT_FALSE(pace.due(0, 100 * second));
}

TEST(UntoldPace, OnceForWhatWasRefused) {
    UntoldPace pace;
    EXPECT_TRUE(pace.due(3, second));
    pace.looked(second, second + 1);
    EXPECT_FALSE(pace.due(3, 100 * second)) << "none since";
    EXPECT_TRUE(pace.due(4, 100 * second));
}

TEST(UntoldPace, WhatWasRefusedSoonAfterALookWaits) {
    UntoldPace pace;
    ASSERT_TRUE(pace.due(3, second));
    pace.looked(second, second);
    EXPECT_FALSE(pace.due(4, second + 1));
    EXPECT_FALSE(pace.due(4, 2 * second - 1)) << "and is not forgotten";
    EXPECT_TRUE(pace.due(4, 2 * second));
}

TEST(UntoldPace, ALongLookIsFollowedByALongRest) {
    UntoldPace pace;
    ASSERT_TRUE(pace.due(3, second));
    pace.looked(second, 2 * second);
    EXPECT_FALSE(pace.due(4, 50 * second));
    EXPECT_TRUE(pace.due(4, 52 * second));
}

TEST(SeenProcesses, NewIsWhatWasNotThereOrExecutesAnother) {
    SeenProcesses seen;
    const capture::ProcessRef one{10, {5 * second}}, other{10, {6 * second}};
    const capture::Program program{0x1000, 0x2000}, next{0x1000, 0x3000};
    EXPECT_TRUE(seen.is_new(one, program));
    seen.end_look();
    EXPECT_FALSE(seen.is_new(one, program));
    seen.end_look();
    EXPECT_FALSE(seen.is_new({10, {5 * second + 1}}, program)) << "known to a tick only";
    seen.end_look();
    EXPECT_TRUE(seen.is_new(one, next));
    seen.end_look();
    EXPECT_TRUE(seen.is_new(other, next));
    seen.end_look();
    seen.end_look(); // it was not there
    EXPECT_TRUE(seen.is_new(other, next));
    seen.end_look();
    seen.clear();
    EXPECT_TRUE(seen.is_new(other, next));
}

} // namespace
} // namespace incident::daemon
