// Whose recorded heap gives way to another user's.
#include "daemon/watch/heap/heap_room.h"

#include <gmock/gmock.h>

namespace incident::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Optional;

constexpr std::uint32_t root = 0, eve = 4711, bob = 4712;

TEST(HeapRoom, WhileThereIsSomeNobodyGivesWay) {
    EXPECT_THAT(heaps_that_give_way({{1, eve, 1, 10}}, 10, bob, 10), Optional(IsEmpty()));
}

TEST(HeapRoom, TheLastOfWhoHasMostGiveWay) {
    const std::vector<HeldHeap> held{{1, eve, 1, 10}, {2, eve, 3, 10}, {3, root, 4, 10}, {4, eve, 2, 10}};
    EXPECT_THAT(heaps_that_give_way(held, 0, bob, 10), Optional(ElementsAre(2)));
    EXPECT_THAT(heaps_that_give_way(held, 0, bob, 15), std::nullopt) << "she would keep less than he gets";
    EXPECT_THAT(heaps_that_give_way(held, 5, bob, 15), Optional(ElementsAre(2)));
}

TEST(HeapRoom, NobodyGivesWayToWhoWouldHaveMoreThanThey) {
    const std::vector<HeldHeap> held{{1, eve, 1, 10}, {2, bob, 2, 10}};
    EXPECT_EQ(heaps_that_give_way(held, 0, bob, 10), std::nullopt);
    EXPECT_EQ(heaps_that_give_way(held, 0, root, 10), std::nullopt) << "each has one";
    EXPECT_EQ(heaps_that_give_way({}, 0, root, 10), std::nullopt);
}

// Whatever comes in whichever order, what was let go does not come back by letting others go in turn.
TEST(HeapRoom, NobodyTakesTurns) {
    const std::vector<HeldHeap> held{{1, eve, 1, 10}, {2, eve, 2, 10}, {3, eve, 3, 10}};
    ASSERT_THAT(heaps_that_give_way(held, 0, bob, 10), Optional(ElementsAre(3)));
    const std::vector<HeldHeap> then{{1, eve, 1, 10}, {2, eve, 2, 10}, {4, bob, 4, 10}};
    EXPECT_EQ(heaps_that_give_way(then, 0, eve, 10), std::nullopt);
}

} // namespace
} // namespace incident::daemon
