#include "daemon/os/clock_changes.h"

#include <gtest/gtest.h>

namespace incident::daemon {
namespace {

constexpr std::uint64_t a_second = 1'000'000'000, an_hour = 3600 * a_second, that_day = 1'795'000'000 * a_second;

// Clocks that a test moves.
class MovedClocks : public testing::Test {
protected:
    void pass(std::uint64_t ns) {
        now.monotonic.ns += ns;
        now.boottime.ns += ns;
        now.realtime.ns += ns;
    }
    void sleep(std::uint64_t ns) {
        now.boottime.ns += ns;
        now.realtime.ns += ns;
    }
    void set(std::int64_t by) { now.realtime.ns += static_cast<std::uint64_t>(by); }

    capture::Clocks now{{100 * a_second}, {100 * a_second}, {that_day}, {}, {}};
    ClockChanges clock{[this] { return now; }};
};

TEST_F(MovedClocks, TimeThatPassesIsNoChange) {
    pass(10 * a_second);
    clock.look();
    const auto read = clock.read("boot");
    EXPECT_TRUE(read.changes.empty());
    EXPECT_EQ(read.boot_id, "boot");
    EXPECT_EQ(read.shown_at(capture::MonotonicTime{105 * a_second}).ns, that_day + 5 * a_second);
}

TEST_F(MovedClocks, WhatWasBeforeASleepStaysThere) {
    pass(10 * a_second);
    clock.look();
    sleep(8 * an_hour);
    pass(a_second / 1000);
    clock.look();
    pass(5 * a_second);
    const auto read = clock.read("");
    ASSERT_EQ(read.changes.size(), 1u);
    EXPECT_EQ(read.changes[0].slept_ns, 8 * an_hour);
    EXPECT_EQ(read.changes[0].set_by_ns, 0);
    EXPECT_EQ(read.shown_at(capture::MonotonicTime{109 * a_second}).ns, that_day + 9 * a_second);
    EXPECT_EQ(read.shown_at(capture::MonotonicTime{112 * a_second}).ns, that_day + 12 * a_second + 8 * an_hour);
    EXPECT_EQ(read.shown_at(capture::BootTime{109 * a_second}).ns, that_day + 9 * a_second);
    EXPECT_EQ(read.shown_at(capture::BootTime{112 * a_second + 8 * an_hour}).ns,
              that_day + 12 * a_second + 8 * an_hour);
    for (const std::uint64_t before : {101, 109}) // the clock was not set: as it goes now is as it went then
        EXPECT_EQ(read.wall_of(capture::MonotonicTime{before * a_second}).ns, that_day + (before - 100) * a_second);
    EXPECT_EQ(read.monotonic_of(capture::BootTime{109 * a_second}).ns, 109 * a_second);
    EXPECT_EQ(read.monotonic_of(capture::BootTime{112 * a_second + 8 * an_hour}).ns, 112 * a_second);
}

TEST_F(MovedClocks, WhatCameAfterASleepThatIsNoticedLateIsAfterIt) {
    capture::MonotonicTime thawed{};
    clock.tell_thawed([&] { return thawed; });
    pass(10 * a_second);
    clock.look();
    pass(a_second / 4);
    sleep(8 * an_hour);
    pass(a_second / 4);
    thawed = now.monotonic;
    pass(5 * a_second); // the daemon has not run
    const auto read = clock.read("");
    ASSERT_EQ(read.changes.size(), 1u);
    EXPECT_EQ(read.changes[0].at, thawed);
    EXPECT_EQ(read.changes[0].at_boot.ns, thawed.ns + 8 * an_hour);
    const capture::MonotonicTime asleep = thawed - a_second / 4, awake = thawed + 1;
    EXPECT_EQ(read.shown_at(asleep).ns, that_day + 10 * a_second + a_second / 4);
    EXPECT_EQ(read.shown_at(awake).ns, that_day + 10 * a_second + a_second / 2 + 8 * an_hour + 1);
}

TEST_F(MovedClocks, AnEarlierWakingIsNotThatOfThisSleep) {
    clock.tell_thawed([] { return capture::MonotonicTime{99 * a_second}; });
    pass(10 * a_second);
    clock.look();
    sleep(8 * an_hour);
    pass(1);
    EXPECT_EQ(clock.read("").changes.at(0).at, now.monotonic) << "when it was noticed";
}

TEST_F(MovedClocks, WhatWasBeforeTheClockWasSetIsToldAsItShowedThen) {
    pass(10 * a_second);
    set(-2 * static_cast<std::int64_t>(an_hour));
    clock.look();
    pass(10 * a_second);
    set(static_cast<std::int64_t>(an_hour));
    const auto read = clock.read(""); // it notices by itself
    ASSERT_EQ(read.changes.size(), 2u);
    EXPECT_EQ(read.changes[0].set_by_ns, -2 * static_cast<std::int64_t>(an_hour));
    EXPECT_EQ(read.shown_at(capture::MonotonicTime{105 * a_second}).ns, that_day + 5 * a_second);
    EXPECT_EQ(read.shown_at(capture::BootTime{105 * a_second}).ns, that_day + 5 * a_second);
    EXPECT_EQ(read.shown_at(capture::MonotonicTime{115 * a_second}).ns, that_day + 15 * a_second - 2 * an_hour);
    EXPECT_EQ(read.shown_at(read.monotonic).ns, read.realtime.ns);
}

TEST_F(MovedClocks, SlowCorrectionsAreNone) {
    for (int i = 0; i < 1000; ++i) {
        pass(a_second);
        set(static_cast<std::int64_t>(a_second / 2000)); // as fast as adjtime goes
        clock.look();
    }
    EXPECT_TRUE(clock.read("").changes.empty());
}

TEST_F(MovedClocks, TheNewestStay) {
    for (int i = 0; i < 100; ++i) {
        pass(a_second);
        sleep(an_hour + static_cast<std::uint64_t>(i));
        clock.look();
    }
    const auto read = clock.read("");
    ASSERT_EQ(read.changes.size(), 64u);
    EXPECT_EQ(read.changes.back().slept_ns, an_hour + 99);
}

TEST(ClockChanges, TheRealClocksStandStill) {
    ClockChanges clock;
    EXPECT_GE(clock.fd(), 0);
    for (int i = 0; i < 1000; ++i)
        clock.look();
    const auto read = clock.read("");
    EXPECT_TRUE(read.changes.empty());
    EXPECT_EQ(read.shown_at(read.monotonic).ns, read.realtime.ns);
}

} // namespace
} // namespace incident::daemon
