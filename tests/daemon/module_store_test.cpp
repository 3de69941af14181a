// Copies of modules in a real directory, whose they are, and who takes a turn.
#include "daemon/modules/module_store.h"
#include "daemon/modules/user_turns.h"

#include "capture/modules/kept_name.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kib = 1024;

class ModuleStoreTest : public testing::Test {
protected:
    ModuleStoreTest() {
        std::string name = (fs::temp_directory_path() / "modules.XXXXXX").string();
        root = ::mkdtemp(name.data());
    }
    ~ModuleStoreTest() override { fs::remove_all(root); }

    ModuleStore open(std::uint64_t bytes, std::uint64_t keep_free = 0) {
        auto store = ModuleStore::open(directory(), {.bytes = bytes, .keep_free = keep_free}, [this] { return free; });
        EXPECT_TRUE(store) << store.error().what;
        return std::move(*store);
    }
    std::string directory() const { return (root / "modules").string(); }
    static capture::ModuleCopy copy(int number, std::uint64_t bytes = 64 * kib) {
        capture::ModuleCopy made;
        made.pieces = {{0, std::string(bytes, 'x')}};
        made.name = capture::kept_name("", fmt::format("{:064x}", number));
        return made;
    }
    std::vector<int> there() const {
        std::vector<int> numbers;
        for (const auto &entry : fs::directory_iterator(directory()))
            numbers.push_back(std::stoi(entry.path().filename().string().substr(5), nullptr, 16));
        std::ranges::sort(numbers);
        return numbers;
    }

    fs::path root;
    std::uint64_t free = 1u << 30;
};

TEST_F(ModuleStoreTest, WritesWhatACopyHasWhereItHasIt) {
    ModuleStore store = open(1 << 20);
    capture::ModuleCopy made = copy(1);
    made.pieces = {{0, "head"}, {100'000, "tail"}};
    ASSERT_TRUE(store.keep(made, 0, 1));
    std::ifstream file(directory() + "/" + made.name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    EXPECT_EQ(bytes.size(), 100'004u);
    EXPECT_EQ(bytes.substr(0, 4), "head");
    EXPECT_EQ(bytes.substr(100'000), "tail");
    struct stat status {};
    ASSERT_EQ(::stat((directory() + "/" + made.name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    ASSERT_EQ(::stat(directory().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(ModuleStoreTest, WhatWasUsedLongestAgoGoes) {
    ModuleStore store = open(256 * kib);
    for (int number = 1; number <= 4; ++number)
        ASSERT_TRUE(store.keep(copy(number), 0, number));
    EXPECT_TRUE(store.use(copy(1).name, 0, 10));
    ASSERT_TRUE(store.keep(copy(5), 0, 11));
    EXPECT_EQ(there(), (std::vector{1, 3, 4, 5}));
    EXPECT_EQ(store.take_removed(), std::vector{copy(2).name});
    EXPECT_FALSE(store.use(copy(2).name, 0, 12));
    EXPECT_EQ(store.bytes(), 256 * kib);
}

TEST_F(ModuleStoreTest, AUsersFloodTakesNothingOfOthers) {
    ModuleStore store = open(512 * kib);
    ASSERT_TRUE(store.keep(copy(1), 0, 1));
    ASSERT_TRUE(store.keep(copy(2), 1001, 2));
    for (int number = 100; number < 200; ++number)
        ASSERT_TRUE(store.keep(copy(number), 1000, number));
    const auto left = there();
    EXPECT_TRUE((std::ranges::count(left, 1) == 1));
    EXPECT_TRUE((std::ranges::count(left, 2) == 1));
    EXPECT_EQ(left.size(), 8u);
}

// Else whoever maps all libraries of the system, and then a flood of her own, has the libraries go.
TEST_F(ModuleStoreTest, WhatSeveralUseIsTheLowestUsers) {
    ModuleStore store = open(256 * kib);
    ASSERT_TRUE(store.keep(copy(1), 0, 1));
    ASSERT_TRUE(store.keep(copy(1), 1000, 2));
    EXPECT_TRUE(store.use(copy(1).name, 1000, 3));
    for (int number = 100; number < 110; ++number)
        ASSERT_TRUE(store.keep(copy(number), 1000, number));
    EXPECT_EQ(std::ranges::count(there(), 1), 1);
}

TEST_F(ModuleStoreTest, WhatSomebodyHasRemovedIsWrittenAgain) {
    ModuleStore store = open(256 * kib);
    ASSERT_TRUE(store.keep(copy(1), 0, 1));
    fs::remove(directory() + "/" + copy(1).name);
    ASSERT_TRUE(store.keep(copy(1), 0, 2));
    EXPECT_EQ(there(), std::vector{1});
    EXPECT_EQ(store.bytes(), 64 * kib);
}

TEST_F(ModuleStoreTest, AFileWithoutAnEndIsRefused) {
    ModuleStore store = open(256 * kib);
    capture::ModuleCopy made = copy(1);
    made.pieces.push_back({1ull << 40, "far"});
    EXPECT_FALSE(store.keep(made, 0, 1));
    EXPECT_TRUE(there().empty());
}

TEST_F(ModuleStoreTest, WhoHasNoneGetsRoomOfWhoHasMost) {
    ModuleStore store = open(256 * kib);
    for (int number = 1; number <= 4; ++number)
        ASSERT_TRUE(store.keep(copy(number), 1000, number));
    ASSERT_TRUE(store.keep(copy(5, 128 * kib), 0, 5));
    EXPECT_EQ(there(), (std::vector{3, 4, 5}));
}

TEST_F(ModuleStoreTest, WhatNobodyHasNeededSinceTheStartGoesFirst) {
    {
        ModuleStore before = open(256 * kib);
        for (int number = 1; number <= 2; ++number)
            ASSERT_TRUE(before.keep(copy(number), 0, number));
    }
    ModuleStore store = open(256 * kib);
    EXPECT_EQ(store.copies(), 2u);
    EXPECT_TRUE(store.use(copy(1).name, 0, 3));
    for (int number = 3; number <= 5; ++number)
        ASSERT_TRUE(store.keep(copy(number), 0, number));
    EXPECT_EQ(there(), (std::vector{1, 3, 4, 5}));
}

TEST_F(ModuleStoreTest, ASmallerBudgetHoldsFromTheStart) {
    {
        ModuleStore before = open(1024 * kib);
        for (int number = 1; number <= 8; ++number)
            ASSERT_TRUE(before.keep(copy(number), 0, number));
    }
    const ModuleStore store = open(128 * kib);
    EXPECT_LE(store.bytes(), 128 * kib);
    EXPECT_EQ(there().size(), 2u);
}

TEST_F(ModuleStoreTest, WhatHasNoRoomIsAnErrorAndChangesNothing) {
    ModuleStore store = open(128 * kib, 1 << 20);
    ASSERT_TRUE(store.keep(copy(1), 0, 1));
    EXPECT_FALSE(store.keep(copy(2, 256 * kib), 0, 2)) << "more than all may take";
    EXPECT_EQ(there(), std::vector{1});
    free = 1 << 20;
    EXPECT_FALSE(store.keep(copy(3), 0, 3)) << "the disk is full";
    EXPECT_EQ(there(), std::vector{1});
}

TEST_F(ModuleStoreTest, IncidentsFindAsMuchRoomAsCopiesTake) {
    free = (1 << 20) + 512 * kib;
    ModuleStore store = open(1 << 20, 1 << 20);
    for (int number = 1; number <= 6; ++number) {
        EXPECT_EQ(store.keep(copy(number), 0, number).has_value(), number <= 4);
        free = (1 << 20) + 512 * kib - store.bytes();
    }
    EXPECT_EQ(there(), (std::vector{1, 2, 3, 4})) << "what is there stays, or they took each other's place without end";
    free = 0; // others take it, or how much there is cannot be read
    EXPECT_EQ(open(1 << 20, 1 << 20).copies(), 4u);
}

TEST_F(ModuleStoreTest, OneThatCannotBeRemovedDoesNotKeepTheOthers) {
    ModuleStore store = open(1 << 20);
    for (int number = 1; number <= 3; ++number)
        ASSERT_TRUE(store.keep(copy(number), 0, number));
    fs::remove(directory() + "/" + copy(1).name);
    fs::create_directory(directory() + "/" + copy(1).name); // unlink fails
    const auto given = store.give_way(1 << 20);
    EXPECT_EQ(given.bytes, 128 * kib);
    EXPECT_FALSE(given.problem.empty());
    EXPECT_EQ(there(), std::vector{1});
}

TEST_F(ModuleStoreTest, WhereNoneIsWantedThoseOfAnEarlierLifeGo) {
    {
        ModuleStore before = open(1 << 20);
        ASSERT_TRUE(before.keep(copy(1), 0, 1));
    }
    ModuleStore store = open(0);
    EXPECT_TRUE(there().empty());
    EXPECT_FALSE(store.keep(copy(2), 0, 2));
}

TEST_F(ModuleStoreTest, GivesWay) {
    ModuleStore store = open(1 << 20);
    for (int number = 1; number <= 4; ++number)
        ASSERT_TRUE(store.keep(copy(number), 0, number));
    EXPECT_EQ(store.give_way(65 * kib).bytes, 128 * kib);
    EXPECT_EQ(there(), (std::vector{3, 4}));
    EXPECT_EQ(store.take_removed(), (std::vector{copy(1).name, copy(2).name}));
    EXPECT_EQ(store.give_way(1 << 30).bytes, 128 * kib);
    EXPECT_TRUE(there().empty());
    EXPECT_EQ(store.bytes(), 0u);
    EXPECT_EQ(store.give_way(1).bytes, 0u);
}

TEST_F(ModuleStoreTest, WhatAnEarlierLifeHasBegunIsRemovedAndWhatIsNoneOfItsOwnStays) {
    fs::create_directory(directory());
    fs::permissions(directory(), fs::perms::owner_all);
    std::ofstream(directory() + "/" + copy(1).name + ".part") << "half";
    std::ofstream(directory() + "/README") << "an administrator's";
    const ModuleStore store = open(1 << 20);
    EXPECT_FALSE(fs::exists(directory() + "/" + copy(1).name + ".part"));
    EXPECT_TRUE(fs::exists(directory() + "/README"));
    EXPECT_EQ(store.copies(), 0u);
}

TEST_F(ModuleStoreTest, ADirectoryOthersMayWriteToIsNotUsed) {
    fs::create_directory(directory());
    fs::permissions(directory(), fs::perms::all);
    EXPECT_FALSE(ModuleStore::open(directory(), {.bytes = 1 << 20}));
    fs::remove(directory());
    fs::create_directory_symlink("/tmp", directory());
    EXPECT_FALSE(ModuleStore::open(directory(), {.bytes = 1 << 20}));
}

constexpr std::uint64_t second = 1'000'000'000;

TEST(UserTurns, UsersTakeTurns) {
    UserTurns<int> turns;
    for (int job = 0; job < 3; ++job) {
        turns.push({1}, job);
        turns.push({2}, 10 + job);
    }
    std::vector<std::uint32_t> users;
    while (const auto next = turns.pop(second))
        users.push_back(next->whose.user);
    EXPECT_EQ(users, (std::vector<std::uint32_t>{1, 2, 1, 2, 1, 2}));
}

TEST(UserTurns, WhoHasUsedUpHerTimeWaitsAndNobodyElse) {
    UserTurns<int> turns;
    turns.push({1}, 1);
    turns.push({1}, 2);
    turns.push({2}, 3);
    ASSERT_EQ(turns.pop(second)->job, 1);
    turns.charge({1}, 3.0);
    ASSERT_EQ(turns.pop(second)->job, 3);
    EXPECT_FALSE(turns.pop(second));
    // two seconds too much, at 1 % of a CPU
    EXPECT_NEAR(static_cast<double>(turns.wait_ns()), 200.0 * second, 1.0 * second);
    EXPECT_FALSE(turns.pop(150 * second));
    const auto next = turns.pop(202 * second);
    ASSERT_TRUE(next);
    EXPECT_EQ(next->job, 2);
}

TEST(UserTurns, WhatCanWaitTakesNoTimeOfWhatCannot) {
    UserTurns<int> turns;
    turns.push({1, true}, 1);
    ASSERT_EQ(turns.pop(second)->job, 1);
    turns.charge({1, true}, 100.0);
    turns.push({1, true}, 2);
    turns.push({1, false}, 3);
    EXPECT_EQ(turns.pop(2 * second)->job, 3);
    EXPECT_FALSE(turns.pop(2 * second));
}

TEST(UserTurns, TooManyJobsOfOneUserAreRefused) {
    UserTurns<int> turns;
    for (std::size_t job = 0; job < UserTurns<int>::most_jobs; ++job)
        ASSERT_TRUE(turns.push({1}, 0));
    EXPECT_FALSE(turns.push({1}, 0));
    EXPECT_TRUE(turns.push({2}, 0));
}

TEST(UserTurns, NobodyWaitsWhereThereIsNoJob) {
    UserTurns<int> turns;
    EXPECT_EQ(turns.wait_ns(), UINT64_MAX);
    turns.push({1}, 0);
    EXPECT_LE(turns.wait_ns(), second);
    ASSERT_TRUE(turns.pop(second));
    turns.charge({1}, 5);
    EXPECT_EQ(turns.wait_ns(), UINT64_MAX);
}

} // namespace
} // namespace incident::daemon
