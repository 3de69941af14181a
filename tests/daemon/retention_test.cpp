// The budget of all bundles, kept on a real directory.
#include "daemon/write/retention.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class RetentionTest : public testing::Test {
protected:
    RetentionTest() {
        std::string name = (fs::temp_directory_path() / "retention.XXXXXX").string();
        root = ::mkdtemp(name.data());
        auto opened = capture::IncidentsDir::open(root.string(), true);
        EXPECT_TRUE(opened) << opened.error().what;
        incidents.emplace(std::move(*opened));
    }
    ~RetentionTest() override { fs::remove_all(root); }

    static std::string name_of(int second) {
        return capture::bundle_name({static_cast<std::uint64_t>(second) * 1'000'000'000}, "crash", "x", 7,
                                    fmt::format("{:06}", second));
    }
    static std::string incident(const std::string &signature, int uid = 0) {
        return fmt::format(R"({{"signature": "{}", "process": {{"exe": "/x", "uid": {}}}}})", signature, uid);
    }
    std::string write(int second, const std::string &json) {
        std::string name = name_of(second);
        auto partial = incidents->begin(name);
        EXPECT_TRUE(partial && partial->add("incident.json", std::string_view(json)) && partial->commit());
        return name;
    }
    std::vector<std::string> names() { return *incidents->names(); }
    fs::path reserve() const { return fs::path(incidents->path()) / ".reserve"; }

    fs::path root;
    std::optional<capture::IncidentsDir> incidents;
};

// A file system such as ZFS frees what was removed seconds later.
TEST_F(RetentionTest, WhatIsFreedLateIsNotRemovedAgain) {
    for (int second = 1; second <= 10; ++second)
        write(second, incident("s"));
    std::uint64_t free = 100'000;
    Retention late(*incidents, {.bundles = 99, .bytes = 1 << 20, .keep_free = 100'000}, {}, [&] { return free; });
    const auto coming = name_of(11), next = name_of(12);
    ASSERT_TRUE(late.make_room({.name = coming, .incident_json = incident("s"), .bytes = 8192}));
    EXPECT_THAT(names(), testing::SizeIs(8));
    ASSERT_TRUE(late.make_room({.name = coming, .incident_json = incident("s"), .bytes = 8192}));
    EXPECT_THAT(names(), testing::SizeIs(8)) << "two are on their way out already";
    free = 90'000; // another one has been written
    ASSERT_TRUE(late.make_room({.name = next, .incident_json = incident("s"), .bytes = 8192}));
    EXPECT_THAT(names(), testing::SizeIs(5));
}

TEST_F(RetentionTest, OnAFullDiskAnUnfinishedOneOfManyAlikeGoes) {
    const auto a = write(1, incident("s")), only = write(2, incident("t"));
    Retention full(*incidents, {.bundles = 99, .bytes = 1 << 20, .keep_free = 0, .at_least = 1}, {}, [] { return 0; });
    full.begun(a);
    full.begun(only);
    const auto coming = name_of(3), json = incident("s");
    const Coming another{.name = coming, .incident_json = json, .bytes = 4096};
    ASSERT_TRUE(full.make_room(another));
    EXPECT_THAT(names(), ElementsAre(a, only)) << "only when the disk proves full";
    const auto made = full.make_room_on_a_full_disk(another);
    EXPECT_TRUE(made && *made);
    EXPECT_THAT(names(), ElementsAre(only));
    EXPECT_FALSE(*full.make_room_on_a_full_disk(another)) << "the only one of its signature stays";
    EXPECT_THAT(names(), ElementsAre(only));
}

constexpr std::uint64_t all_room = 1ull << 60; // no file system has as much free

TEST_F(RetentionTest, RoomIsMadeBeforeItIsNeeded) {
    const auto a = write(1, incident("s")), b = write(2, incident("s")), c = name_of(3);
    Retention two(*incidents, {.bundles = 2, .bytes = 1 << 20, .keep_free = 0});
    ASSERT_TRUE(two.make_room({.name = c, .incident_json = incident("s"), .bytes = 4096}));
    EXPECT_THAT(names(), ElementsAre(b));
    EXPECT_EQ(two.removed(), 1u);
    Retention small(*incidents, {.bundles = 9, .bytes = 8192, .keep_free = 0});
    ASSERT_TRUE(small.make_room({.name = c, .incident_json = incident("s"), .bytes = 4096}));
    EXPECT_THAT(names(), ElementsAre(b)) << "both fit";
    Retention smaller(*incidents, {.bundles = 9, .bytes = 8191, .keep_free = 0});
    ASSERT_TRUE(smaller.make_room({.name = c, .incident_json = incident("s"), .bytes = 4096}));
    EXPECT_THAT(names(), ElementsAre());
}

TEST_F(RetentionTest, OneThatIsPinnedOrNotFinishedStays) {
    const auto a = write(1, incident("s")), b = write(2, incident("s")), c = write(3, incident("s"));
    ASSERT_TRUE(incidents->set_pinned(a, true));
    Retention one(*incidents, {.bundles = 1, .bytes = 1 << 20, .keep_free = 0});
    one.begun(b);
    const auto coming = name_of(4);
    ASSERT_TRUE(one.make_room({.name = coming, .incident_json = incident("s"), .bytes = 4096}));
    EXPECT_THAT(names(), ElementsAre(a, b));
    one.finished(b);
    ASSERT_TRUE(one.make_room({.name = coming, .incident_json = incident("s"), .bytes = 4096}));
    EXPECT_THAT(names(), ElementsAre(a));
}

// Somebody else has filled the disk: all of ours would not make it free.
TEST_F(RetentionTest, NothingIsErasedInVain) {
    std::vector<std::string> all;
    for (int second = 1; second <= 10; ++second)
        all.push_back(write(second, incident("s")));
    Retention in_vain(*incidents, {.bundles = 99, .bytes = 1 << 20, .keep_free = all_room, .at_least = 5});
    ASSERT_TRUE(in_vain.make_room({.name = name_of(11), .incident_json = incident("s"), .bytes = 4096}));
    EXPECT_THAT(names(), testing::SizeIs(9)) << "the new one takes the place of one";
    for (int second = 11; second <= 20; ++second) {
        const auto name = name_of(second);
        ASSERT_TRUE(in_vain.make_room({.name = name, .incident_json = incident("s"), .bytes = 4096}));
        write(second, incident("s"));
    }
    EXPECT_THAT(names(), testing::SizeIs(10));
    EXPECT_EQ(names().back(), name_of(20));
}

TEST_F(RetentionTest, WhatGivesWayGoesBeforeAnyBundle) {
    for (int second = 1; second <= 5; ++second)
        write(second, incident("s"));
    std::uint64_t free = 1'000'000, others = 24'000;
    const GiveWay gives_way{[&] { return others; },
                            [&](std::uint64_t bytes) {
                                const auto given = std::min(bytes, others);
                                others -= given;
                                free += given;
                                return given;
                            }};
    Retention retention(*incidents, {.bundles = 99, .bytes = 1 << 20, .keep_free = 1'000'000}, gives_way,
                        [&] { return free; });
    const auto coming = name_of(6);
    const auto text = incident("s");
    const Coming another{.name = coming, .incident_json = text, .bytes = 8192};
    ASSERT_TRUE(retention.make_room(another));
    EXPECT_EQ(others, 24'000u - 8192) << "no more than is needed";
    free = 0;
    auto made = retention.make_room_on_a_full_disk(another);
    ASSERT_TRUE(made && *made);
    EXPECT_EQ(others, 24'000u - 2 * 8192);
    EXPECT_THAT(names(), testing::SizeIs(5));
    free = 0;
    made = retention.make_room_on_a_full_disk(another);
    ASSERT_TRUE(made && *made);
    EXPECT_EQ(others, 0u);
    EXPECT_THAT(names(), testing::SizeIs(4)) << "what was lacking then";
}

// What is given and is not free, or only later, does not stand for room.
TEST_F(RetentionTest, WhatGivesWayInVainIsNotTakenForRoom) {
    for (int second = 1; second <= 5; ++second)
        write(second, incident("s"));
    int asked = 0;
    std::uint64_t free = 1'000'000;
    const GiveWay gives_way{[] { return 1u << 20; },
                            [&](std::uint64_t bytes) {
                                ++asked;
                                return bytes;
                            }};
    Retention retention(*incidents, {.bundles = 99, .bytes = 1 << 20, .keep_free = 1'000'000}, gives_way,
                        [&] { return free; });
    const auto coming = name_of(6);
    const auto text = incident("s");
    const Coming another{.name = coming, .incident_json = text, .bytes = 8192};
    ASSERT_TRUE(retention.make_room(another));
    ASSERT_TRUE(retention.make_room(another));
    EXPECT_EQ(asked, 1) << "what was given is on its way";
    EXPECT_THAT(names(), testing::SizeIs(5));
    auto made = retention.make_room_on_a_full_disk(another);
    ASSERT_TRUE(made && *made);
    EXPECT_EQ(asked, 1) << "there is room on the disk: it is a quota, which may be of the incidents alone";
    EXPECT_THAT(names(), testing::SizeIs(3));
    free = 0;
    made = retention.make_room_on_a_full_disk(another);
    ASSERT_TRUE(made && *made);
    EXPECT_EQ(asked, 2);
    EXPECT_THAT(names(), testing::SizeIs(1)) << "the disk is as full as before";
}

// Somebody else has filled the disk: neither does that have all of it erased.
TEST_F(RetentionTest, NothingGivesWayInVain) {
    for (int second = 1; second <= 5; ++second)
        write(second, incident("s"));
    std::uint64_t others = 1'000'000;
    const GiveWay gives_way{[&] { return others; },
                            [&](std::uint64_t bytes) {
                                const auto given = std::min(bytes, others);
                                others -= given;
                                return given;
                            }};
    Retention retention(*incidents, {.bundles = 99, .bytes = 1 << 20, .keep_free = 1ull << 40}, gives_way,
                        [&] { return 0; });
    for (int second = 6; second <= 8; ++second) {
        const auto name = name_of(second);
        ASSERT_TRUE(retention.make_room({.name = name, .incident_json = incident("s"), .bytes = 4096}));
        write(second, incident("s"));
    }
    EXPECT_EQ(others, 1'000'000u - 3 * 4096) << "only as much as comes";
    EXPECT_THAT(names(), testing::SizeIs(8));
}

TEST_F(RetentionTest, SoManyStayWhateverOthersTake) {
    for (int second = 1; second <= 5; ++second)
        write(second, incident("s"));
    Retention floor(*incidents, {.bundles = 99, .bytes = 1 << 20, .keep_free = all_room, .at_least = 6});
    const auto coming = name_of(6);
    ASSERT_TRUE(floor.make_room({.name = coming, .incident_json = incident("s"), .bytes = 4096}));
    EXPECT_THAT(names(), testing::SizeIs(5));
    const auto made = floor.make_room_on_a_full_disk({.name = coming, .incident_json = incident("s"), .bytes = 4096});
    ASSERT_TRUE(made && *made);
    EXPECT_THAT(names(), testing::SizeIs(4)) << "one of many alike goes even then";
}

TEST_F(RetentionTest, OnAFullDiskTheReserveGoesLast) {
    const auto first = write(1, incident("s")), only = write(2, incident("t"));
    Retention retention(*incidents, {.bundles = 99, .bytes = 1 << 20, .keep_free = 0, .at_least = 9, .reserve = 65536});
    retention.hold_reserve();
    ASSERT_EQ(fs::file_size(reserve()), 65536u);
    const auto coming = name_of(3), json = incident("s");
    const Coming another{.name = coming, .incident_json = json, .bytes = 4096};
    ASSERT_TRUE(retention.make_room(another));
    auto made = retention.make_room_on_a_full_disk(another);
    ASSERT_TRUE(made && *made);
    EXPECT_THAT(names(), ElementsAre(only)) << "the newest of its signature is the one that comes";
    EXPECT_TRUE(fs::exists(reserve()));
    made = retention.make_room_on_a_full_disk(another);
    ASSERT_TRUE(made && *made);
    EXPECT_THAT(names(), ElementsAre(only));
    EXPECT_FALSE(fs::exists(reserve()));
    made = retention.make_room_on_a_full_disk(another);
    ASSERT_TRUE(made);
    EXPECT_FALSE(*made) << "there is nothing left to give up";
    retention.hold_reserve();
    EXPECT_TRUE(fs::exists(reserve()));
}

// An administrator has made it immutable (chattr +i).
TEST_F(RetentionTest, OneThatCannotBeRemovedKeepsNoOther) {
    std::vector<std::string> all;
    for (int second = 1; second <= 3; ++second)
        all.push_back(write(second, incident("s")));
    const auto change = [&](const std::string &how) {
        return std::system(fmt::format("chattr {}i {}/{} 2>/dev/null", how, incidents->path(), all[0]).c_str());
    };
    if (change("+") != 0)
        GTEST_SKIP() << "this file system has no immutable files";
    Retention one(*incidents, {.bundles = 2, .bytes = 1 << 20, .keep_free = 0});
    const auto made = one.make_room({.name = name_of(4), .incident_json = incident("s"), .bytes = 4096});
    EXPECT_EQ(change("-"), 0);
    EXPECT_TRUE(made);
    EXPECT_THAT(names(), ElementsAre(all[0], all[2]));
}

TEST_F(RetentionTest, AReserveIsMadeOnlyWhereThereIsRoom) {
    SpaceReserve reserve_of(incidents->fd(), 65536);
    ASSERT_TRUE(reserve_of.hold(SpaceReserve::ease * 65536 - 1));
    EXPECT_FALSE(reserve_of.held());
    ASSERT_TRUE(reserve_of.hold(SpaceReserve::ease * 65536));
    EXPECT_TRUE(reserve_of.held());
    EXPECT_TRUE(SpaceReserve(incidents->fd(), 65536).held()) << "the next daemon has it too";
    EXPECT_FALSE(SpaceReserve(incidents->fd(), 4096).held()) << "another size is asked for now";
    EXPECT_FALSE(fs::exists(reserve()));
    EXPECT_FALSE(SpaceReserve(incidents->fd(), 0).held());
}

TEST_F(RetentionTest, ALinkInThePlaceOfTheReserveIsNotFollowed) {
    const fs::path other = root / "other";
    std::ofstream(other) << std::string(65536, 'x');
    fs::create_symlink(other, reserve());
    SpaceReserve mine(incidents->fd(), 65536);
    EXPECT_FALSE(mine.held());
    ASSERT_TRUE(mine.hold(1 << 30));
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(reserve())));
    EXPECT_EQ(fs::file_size(other), 65536u);
}

// What cannot be read has no signature of its own: it goes before what can.
TEST_F(RetentionTest, BrokenOnesGoFirst) {
    const auto good = write(1, incident("s")), broken = write(2, "{\"signature\": 3"), list = write(3, "[]");
    Retention two(*incidents, {.bundles = 2, .bytes = 1 << 20, .keep_free = 0});
    const auto coming = name_of(4);
    ASSERT_TRUE(two.make_room({.name = coming, .incident_json = incident("t"), .bytes = 4096}));
    EXPECT_THAT(names(), ElementsAre(good));
}

TEST_F(RetentionTest, OneThatGrowsIsNotRemovedForItself) {
    const auto a = write(1, incident("s")), b = write(2, incident("s"));
    Retention small(*incidents, {.bundles = 9, .bytes = 12288, .keep_free = 0});
    ASSERT_TRUE(small.make_room({.name = a, .incident_json = {}, .bytes = 8192}));
    EXPECT_THAT(names(), ElementsAre(a));
}

} // namespace
} // namespace incident::daemon
