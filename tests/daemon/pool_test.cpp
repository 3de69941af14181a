// Who gives back segments of the pool of calls.
#include "daemon/record/pool.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

namespace incident::daemon {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Pair;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr std::uint32_t pool_size = 1000;

// Its segments ended one a nanosecond, from `began` on.
SegmentHolder holder_of(std::uint32_t slot, std::uint32_t user, std::uint32_t pid, std::uint32_t segments,
                        std::uint64_t began, bool refused = false) {
    SegmentHolder holder{
        .slot = slot, .user = user, .process = {pid, {1}}, .refused = refused, .segments = segments, .until_ns = {}};
    holder.until_ns.resize(segments - 1);
    std::iota(holder.until_ns.begin(), holder.until_ns.end(), began);
    return holder;
}

std::vector<std::uint32_t> takings_of(const std::vector<SegmentHolder> &holders, std::uint32_t pool,
                                      std::uint32_t wanted, std::uint64_t past_ns) {
    return plan_pool(holders, pool, wanted, past_ns).takings;
}

std::size_t taken_from(const std::vector<std::uint32_t> &takings, std::uint32_t slot) {
    return static_cast<std::size_t>(std::ranges::count(takings, slot));
}

TEST(SegmentPool, NobodyGivesBackWhereNobodyIsInNeed) {
    EXPECT_FALSE(anybody_in_need({holder_of(1, 1, 1, 900, 10), holder_of(2, 2, 2, 2, 10)}, pool_size));
    // one that was refused has more than its part already
    EXPECT_FALSE(anybody_in_need({holder_of(1, 1, 1, 900, 10, true), holder_of(2, 2, 2, 5, 10)}, pool_size));
    EXPECT_TRUE(anybody_in_need({holder_of(1, 1, 1, 900, 10, true), holder_of(2, 2, 2, 3, 10, true)}, pool_size));
}

TEST(SegmentPool, WhoHasMoreThanAPartGivesTheOldestToAnotherUser) {
    const auto takings =
        takings_of({holder_of(1, 1, 1, 900, 1000), holder_of(2, 2, 2, 3, 10, true)}, pool_size, 100, 0);
    EXPECT_THAT(takings, SizeIs(100));
    EXPECT_THAT(takings, Each(1u)); // although those of the other are older
}

TEST(SegmentPool, APartOfAUserIsDividedAmongHerProcessesAndThreads) {
    // 1000 for one user, two processes: 500 each; the second process has two threads: 250 each
    const auto takings =
        takings_of({holder_of(1, 1, 1, 520, 1000), holder_of(2, 1, 2, 300, 10), holder_of(3, 1, 2, 3, 5, true)},
                   pool_size, 1000, 0);
    EXPECT_EQ(taken_from(takings, 1), 20u);
    EXPECT_EQ(taken_from(takings, 2), 50u);
    EXPECT_EQ(taken_from(takings, 3), 0u);
}

TEST(SegmentPool, IdleThreadsHaveNoPart) {
    std::vector<SegmentHolder> holders{holder_of(0, 1, 1, 600, 10), holder_of(1, 2, 2, 400, 10, true)};
    for (std::uint32_t slot = 2; slot < 300; ++slot)
        holders.push_back(holder_of(slot, 3 + slot, 3 + slot, 2, 10));
    EXPECT_EQ(taken_from(takings_of(holders, pool_size, 1000, 0), 0), 100u); // of two users, not of three hundred
}

TEST(SegmentPool, WhatIsFurtherBackThanWantedGoesFirstWhosesoeverItIs) {
    const auto takings =
        takings_of({holder_of(1, 1, 1, 700, 1000), holder_of(2, 2, 2, 6, 10), holder_of(3, 3, 3, 3, 2000, true)},
                   pool_size, 8, 13);
    EXPECT_THAT(takings, ElementsAre(2, 2, 2, 1, 1, 1, 1, 1)); // 10, 11 and 12 ns are before 13
}

TEST(SegmentPool, TheNewestSegmentStays) {
    const auto takings =
        takings_of({holder_of(1, 1, 1, 5, 10), holder_of(2, 2, 2, 4, 10, true)}, pool_size, 1000, ~0ull);
    EXPECT_EQ(taken_from(takings, 1), 4u);
    EXPECT_EQ(taken_from(takings, 2), 3u);
}

TEST(SegmentPool, WhoIsInNeedIsGrantedWhatIsTakenUpToAPart) {
    const auto few = plan_pool({holder_of(1, 1, 1, 900, 10), holder_of(2, 1, 2, 3, 10, true),
                                holder_of(3, 1, 3, 3, 10, true), holder_of(4, 1, 4, 500, 10, true)},
                               pool_size, 100, 0);
    EXPECT_THAT(few.grants, UnorderedElementsAre(Pair(2, 50), Pair(3, 50)));
    const auto many = plan_pool({holder_of(1, 1, 1, 900, 10), holder_of(2, 1, 2, 480, 10, true)}, pool_size, 400, 0);
    EXPECT_THAT(many.grants, UnorderedElementsAre(Pair(2, 20)));
}

} // namespace
} // namespace incident::daemon
