#include "capture/collect/collect_zfs.h"

#include <gmock/gmock.h>

namespace incident::capture {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

OsRoots zfs_tree(const std::string &name) {
    OsRoots os;
    os.proc = TEST_DATA "/proc-trees/" + name + "/proc";
    os.sys = TEST_DATA "/proc-trees/" + name + "/sys";
    return os;
}

ZfsLimits unhurried_zfs() { // the machine may be busy
    ZfsLimits limits;
    limits.deadline = std::chrono::seconds(60);
    return limits;
}

TEST(CollectZfs, AStall) {
    Collected into;
    collect_zfs(zfs_tree("zfs-stall"), unhurried_zfs(), into);
    for (const CollectorResult &each : into.results) {
        EXPECT_TRUE(each.ok) << each.name << ": " << each.error;
        EXPECT_EQ(each.error, "") << each.name;
    }
    for (const char *path : {"host/zfs.tank/txgs", "host/zfs.tank/state", "host/zfs.tank/dmu_tx_assign",
                             "host/zfs.tank/iostats", "host/zfs/arcstats", "host/zfs/dmu_tx", "host/zfs/abdstats"})
        EXPECT_NE(into.file(path), nullptr) << path;
    EXPECT_EQ(into.file("host/zfs.tank/objset-0x36"), nullptr) << "there is one for each dataset";
    EXPECT_THAT(*into.file("host/zfs/parameters"),
                HasSubstr("zfs_dirty_data_max=16777216\nzfs_dirty_data_max_percent="));

    const ZfsState zfs = zfs_state(into);
    ASSERT_TRUE(zfs.txgs.contains("tank"));
    EXPECT_THAT(zfs.txgs.at("tank"), SizeIs(11));
    EXPECT_EQ(zfs.pool_states.at("tank"), "ONLINE");
    EXPECT_EQ(zfs.parameters.at("zfs_txg_timeout"), "5");
}

TEST(CollectZfs, WhoIsBlocked) {
    Collected into;
    collect_zfs(zfs_tree("zfs-stall"), unhurried_zfs(), into);
    const auto blocked = zfs_state(into).blocked;
    // Not 236, an idle task queue in state S, nor 1, which is not in ZFS at all.
    ASSERT_THAT(blocked, SizeIs(4));
    EXPECT_EQ(blocked[0].tid, 264u);
    EXPECT_EQ(blocked[0].comm, "txg_sync");
    EXPECT_THAT(blocked[0].stack, Contains("spa_sync+0x565/0xf90 [zfs]"));
    EXPECT_EQ(blocked[1].pid, 281u);
    EXPECT_EQ(blocked[1].comm, "dd");
    EXPECT_THAT(blocked[1].stack, Contains(HasSubstr("dmu_tx_assign")));
}

TEST(CollectZfs, CapsAreSaid) {
    ZfsLimits limits = unhurried_zfs();
    limits.blocked = 2;
    limits.pools = 0;
    Collected into;
    collect_zfs(zfs_tree("zfs-stall"), limits, into);
    EXPECT_THAT(zfs_state(into).blocked, SizeIs(2));
    EXPECT_THAT(zfs_state(into).txgs, IsEmpty());
    EXPECT_THAT(into.results[0].error, HasSubstr("1 pools left out"));
    EXPECT_THAT(into.results[3].error, AllOf(HasSubstr("cut: "), HasSubstr("2 kept")));
}

TEST(CollectZfs, WithoutZfs) {
    Collected into;
    collect_zfs(zfs_tree("unified"), unhurried_zfs(), into);
    ASSERT_THAT(into.results, SizeIs(4));
    for (int i : {0, 1, 2}) {
        EXPECT_FALSE(into.results[i].ok);
        EXPECT_THAT(into.results[i].error, HasSubstr("No such file or directory"));
    }
    EXPECT_EQ(*into.file("host/zfs/blocked"), "");
}

TEST(CollectZfs, APoolsNameInAPath) {
    EXPECT_EQ(zfs_pool_label("tank"), "tank");
    EXPECT_EQ(zfs_pool_label("my pool:1/.."), "my_pool_1_..");
    EXPECT_THAT(zfs_pool_label(std::string(300, 'x')), SizeIs(100));
    EXPECT_THAT(zfs_pool_label("\xff\n\x1b"), Not(HasSubstr("\n")));
}

} // namespace
} // namespace incident::capture
