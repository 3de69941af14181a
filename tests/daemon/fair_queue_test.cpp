// The queue that users share.
#include "daemon/os/fair_queue.h"

#include <gmock/gmock.h>

#include <string>

namespace incident::daemon {
namespace {

std::string taken_from(FairQueue<char> &queue) {
    std::string all;
    while (const auto next = queue.pop())
        all += *next;
    return all;
}

TEST(FairQueue, UsersTakeTurnsAndEachHasHerOrder) {
    FairQueue<char> queue;
    for (const char item : std::string("abcdefgh"))
        queue.push(1000, item);
    queue.push(0, 'R');
    queue.push(0, 'S');
    queue.push(33, 'w');
    EXPECT_EQ(queue.size(), 11u);
    EXPECT_EQ(queue.users(), 3u);
    EXPECT_EQ(taken_from(queue), "aRwbScdefgh");
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.users(), 0u);
}

TEST(FairQueue, WhoComesLaterWaitsForOneOfEach) {
    FairQueue<char> queue;
    for (int i = 0; i < 100; ++i)
        queue.push(1000, 'a');
    EXPECT_EQ(queue.pop(), 'a');
    queue.push(0, 'R');
    EXPECT_EQ(queue.pop(), 'a');
    EXPECT_EQ(queue.pop(), 'R');
}

TEST(FairQueue, TheHeaviestGivesTheNewestThatWeighs) {
    FairQueue<char> queue;
    queue.push(0, 'R', 30);
    queue.push(1000, 'a', 20);
    queue.push(1000, 'b', 20);
    queue.push(1000, 'c'); // weighs nothing: it stays
    EXPECT_EQ(queue.heaviest(), 1000u);
    EXPECT_EQ(queue.weight(), 70u);
    EXPECT_EQ(queue.drop_newest(1000), 'b');
    EXPECT_EQ(queue.weight_of(1000), 20u);
    EXPECT_EQ(queue.heaviest(), 0u);
    EXPECT_EQ(queue.drop_newest(1000), 'a');
    EXPECT_EQ(queue.drop_newest(1000), std::nullopt);
    EXPECT_EQ(taken_from(queue), "Rc");
    EXPECT_EQ(queue.weight(), 0u);
}

TEST(FairQueue, WhoHasLostAllHasNoTurn) {
    FairQueue<char> queue;
    queue.push(1000, 'a', 1);
    EXPECT_EQ(queue.drop_newest(1000), 'a');
    EXPECT_EQ(queue.pop(), std::nullopt);
    queue.push(1000, 'b', 1);
    queue.push(0, 'R', 1);
    EXPECT_EQ(taken_from(queue), "bR");
}

} // namespace
} // namespace incident::daemon
