// Which bundles go when something must.
#include "daemon/write/removal_plan.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

namespace incident::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint32_t root = 0, alice = 1000;

// Bundles in the order of their time, named by it.
class Stored {
public:
    Stored &add(std::uint32_t uid, std::string exe, std::string signature, std::uint64_t bytes = 100) {
        all.push_back({.name = fmt::format("{:04}", all.size()),
                       .bytes = bytes,
                       .signature = std::move(signature),
                       .exe = std::move(exe),
                       .uid = uid});
        return *this;
    }
    Stored &add_many(int count, std::uint32_t uid, const std::string &exe, const std::string &signature = "s") {
        for (int i = 0; i < count; ++i)
            add(uid, exe, signature);
        return *this;
    }
    Stored &that_stays() {
        all.back().stays = true;
        return *this;
    }
    std::vector<std::string> removal(Excess excess, Floor floor = {}) const {
        return plan_removal(all, excess, floor).names;
    }
    // How many of these are left of each user.
    std::size_t left_of(std::uint32_t uid, Excess excess) const {
        const auto gone = removal(excess);
        return static_cast<std::size_t>(std::ranges::count_if(all, [&](const StoredBundle &bundle) {
            return bundle.uid == uid && std::ranges::find(gone, bundle.name) == gone.end();
        }));
    }

    std::vector<StoredBundle> all;
};

TEST(RemovalPlan, NothingWithoutNeed) {
    EXPECT_THAT(Stored().add_many(5, root, "/a").removal({0, 0}), IsEmpty());
    EXPECT_THAT(Stored().removal({3, 1000}), IsEmpty());
}

TEST(RemovalPlan, AsMuchAsHelpsAndTheOldestFirst) {
    const auto stored = Stored().add_many(5, root, "/a");
    EXPECT_THAT(stored.removal({2, 0}), ElementsAre("0000", "0001"));
    EXPECT_THAT(stored.removal({0, 101}), ElementsAre("0000", "0001"));
    const auto removal = plan_removal(stored.all, {0, 101}, {});
    EXPECT_EQ(removal.bytes, 200u);
}

TEST(RemovalPlan, TheBestOfEachSignatureLast) {
    const auto stored = Stored().add(root, "/a", "rare").add_many(3, root, "/a", "often").add(root, "/b", "other");
    EXPECT_THAT(stored.removal({2, 0}), ElementsAre("0001", "0002"));
    EXPECT_THAT(stored.removal({4, 0}), ElementsAre("0001", "0002", "0000", "0003"));
}

TEST(RemovalPlan, WhatStaysStays) {
    const auto stored = Stored().add(root, "/a", "s").that_stays().add(root, "/a", "s").add(root, "/a", "s");
    EXPECT_THAT(stored.removal({9, 0}), ElementsAre("0001", "0002"));
}

// A pinned one is the best of its signature as any other.
TEST(RemovalPlan, WhatStaysCountsAsTheBest) {
    const auto stored = Stored().add(root, "/a", "s").add(root, "/a", "s").that_stays().add(root, "/b", "t");
    EXPECT_THAT(stored.removal({1, 0}), ElementsAre("0000"));
}

TEST(RemovalPlan, TheHeaviestUserAndHerHeaviestExecutable) {
    const auto stored = Stored()
                            .add(root, "/service", "s", 300)
                            .add(root, "/service", "s", 300)
                            .add(alice, "/small", "s", 100)
                            .add(alice, "/small", "s", 100)
                            .add(alice, "/large", "t", 400)
                            .add(alice, "/large", "t", 400);
    EXPECT_THAT(stored.removal({0, 1}), ElementsAre("0004"));
    EXPECT_THAT(stored.removal({0, 701}), ElementsAre("0004", "0000", "0002"))
        << "after that each in turn has the most";
}

TEST(RemovalPlan, ByNumberWhereTheNumberIsTooHigh) {
    const auto stored =
        Stored().add(root, "/heavy", "s", 9000).add(root, "/heavy", "s", 9000).add_many(5, alice, "/light");
    EXPECT_THAT(stored.removal({1, 0}), ElementsAre("0002"));
    EXPECT_THAT(stored.removal({0, 1}), ElementsAre("0000"));
}

TEST(RemovalPlan, AStormOfOneUserTakesNothingOfAnother) {
    const auto stored = Stored().add_many(20, root, "/service").add_many(500, alice, "/crasher");
    EXPECT_EQ(stored.left_of(root, {400, 0}), 20u);
}

// Each of her crashes has another signature and another executable.
TEST(RemovalPlan, NorDoEverNewSignatures) {
    Stored stored;
    stored.add_many(100, root, "/service", "root's");
    for (int i = 0; i < 1000; ++i)
        stored.add(alice, fmt::format("/tmp/{}", i), fmt::format("signature {}", i));
    EXPECT_EQ(stored.left_of(root, {900, 0}), 100u);
    EXPECT_GE(stored.left_of(root, {1000, 0}), 36u) << "what is left is shared";
    EXPECT_EQ(stored.left_of(alice, {1000, 0}), signatures_spared);
}

TEST(RemovalPlan, AFloorHolds) {
    const auto stored = Stored().add_many(3, root, "/a").add(root, "/a", "t").add(root, "/a", "u");
    EXPECT_THAT(stored.removal({9, 0}, {.bundles = 4}), ElementsAre("0000"));
    EXPECT_THAT(stored.removal({9, 0}, {.bundles = 5}), IsEmpty());
    EXPECT_THAT(stored.removal({9, 0}, {.bundles = 5, .duplicates_go = true}), ElementsAre("0000", "0001"))
        << "the best of three signatures stay";
    EXPECT_THAT(stored.removal({0, 1}, {.bundles = 5, .duplicates_go = true}), ElementsAre("0000"));
}

TEST(RemovalPlan, OneThatIsWholeIsBetterThanANewerLightOne) {
    Stored stored;
    stored.add_many(4, root, "/a");
    stored.all[2].light = stored.all[3].light = true;
    EXPECT_THAT(stored.removal({4, 0}), ElementsAre("0000", "0002", "0003", "0001"));
}

// One user has 65536 subordinate ids on Debian.
TEST(RemovalPlan, SubordinateIdsAreOneUser) {
    Stored stored;
    for (int i = 0; i < 20; ++i)
        stored.add(root, "/service", fmt::format("root's {}", i));
    for (std::uint32_t i = 0; i < 100; ++i)
        stored.add(100'000 + i, "/x", fmt::format("hers {}", i));
    EXPECT_EQ(stored.left_of(root, {60, 0}), 20u);
}

TEST(RemovalPlan, OfEqualSharesTheOldestGoes) {
    const auto stored = Stored().add(alice, "/a", "s").add(alice, "/a", "s").add(root, "/b", "t").add(root, "/b", "t");
    EXPECT_THAT(stored.removal({1, 0}), ElementsAre("0000"));
}

TEST(RemovalPlan, NoProcessIsAUserToo) {
    Stored stored;
    stored.add_many(2, root, "/a");
    for (int i = 0; i < 4; ++i) {
        stored.add(root, "", "zfs");
        stored.all.back().uid.reset();
    }
    EXPECT_THAT(stored.removal({2, 0}), ElementsAre("0002", "0003"));
}

} // namespace
} // namespace incident::daemon
