// Timers of the event loop, on the real clock.
#include "daemon/os/event_loop.h"

#include <gtest/gtest.h>

namespace incident::daemon {
namespace {

TEST(EventLoopTimer, CallsOnceWhenItIsDueAndNotWhenItWasDisarmed) {
    auto loop = EventLoop::create();
    ASSERT_TRUE(loop);
    int called = 0, disarmed_called = 0;
    auto counts = loop->timer([&] { ++called; });
    auto disarmed = loop->timer([&] { ++disarmed_called; });
    auto last = loop->timer([&] { loop->stop(); });
    ASSERT_TRUE(counts && disarmed && last);
    counts->arm_in(0);
    disarmed->arm_in(0);
    disarmed->disarm();
    last->arm_in(1'000'000); // later than both
    ASSERT_TRUE(loop->run());
    EXPECT_EQ(called, 1);
    EXPECT_EQ(disarmed_called, 0);
}

TEST(EventLoopTimer, CanBeArmedAgain) {
    auto loop = EventLoop::create();
    ASSERT_TRUE(loop);
    int called = 0;
    EventLoop::Timer again;
    auto timer = loop->timer([&] {
        if (++called == 3)
            loop->stop();
        else
            again.arm_in(0);
    });
    ASSERT_TRUE(timer);
    again = *timer;
    again.disarm(); // of one that is not armed
    again.arm_in(0);
    ASSERT_TRUE(loop->run());
    EXPECT_EQ(called, 3);
}

TEST(EventLoopTimer, IsNotPutOffByThoseWhoWouldArmItAgain) {
    auto loop = EventLoop::create();
    ASSERT_TRUE(loop);
    int called = 0, begun = 0;
    auto looks = loop->timer([&] {
        if (++called == 2)
            loop->stop();
    });
    EventLoop::Timer next;
    auto begins = loop->timer([&] {
        looks->arm_in_unless_armed(5'000'000);
        if (++begun == 200)
            loop->stop();
        else
            next.arm_in(1'000'000);
    });
    ASSERT_TRUE(looks && begins);
    next = *begins;
    next.arm_in(0);
    ASSERT_TRUE(loop->run());
    EXPECT_EQ(called, 2);
}

} // namespace
} // namespace incident::daemon
