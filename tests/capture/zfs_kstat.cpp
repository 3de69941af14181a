#include "capture/os/zfs_kstat.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

namespace incident::capture {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

// Recorded in the virtual machine by tests/vm/cases/zfs_stall.sh: OpenZFS 2.1.11, Linux 6.1.
std::string recorded(const std::string &path) {
    std::ifstream file(TEST_DATA "/proc-trees/zfs-stall/" + path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

TEST(ZfsTxgs, OfAPoolThatStalls) {
    const auto rows = parse_txgs(recorded("proc/spl/kstat/zfs/tank/txgs"));
    ASSERT_THAT(rows, SizeIs(11));
    const TxgRow &done = rows[5];
    EXPECT_EQ(done.txg, 10u);
    EXPECT_TRUE(done.committed());
    EXPECT_EQ(done.birth_ns, 14613736035u);
    EXPECT_EQ(done.dirty, 6569984u);
    EXPECT_EQ(done.written, 6078464u);
    EXPECT_EQ(done.writes, 104u);
    EXPECT_EQ(done.sync_ns, 85775208u);
    const TxgRow &stuck = rows[9];
    EXPECT_EQ(stuck.txg, 14u);
    EXPECT_TRUE(stuck.syncing());
    EXPECT_EQ(stuck.sync_ns, 0u);
    EXPECT_EQ(stuck.sync_start().ns, 14804838646u + 303403403u + 16548u + 468716u);
    EXPECT_EQ(rows[10].state, 'O');
}

TEST(ZfsTxgs, ColumnsAreFoundByName) {
    // 0.7 puts the kstat's own line first; a later version may add columns.
    const auto rows = parse_txgs("27 0 0x01 100 9600 8063318466 23455655216\n"
                                 "txg state birth extra stime otime qtime wtime\n"
                                 "7 C 100 hello 5 1 2 3\n");
    ASSERT_THAT(rows, SizeIs(1));
    EXPECT_EQ(rows[0].txg, 7u);
    EXPECT_EQ(rows[0].sync_ns, 5u);
    EXPECT_EQ(rows[0].sync_start().ns, 106u);
}

TEST(ZfsTxgs, WhatDoesNotFitIsLeftOut) {
    EXPECT_THAT(parse_txgs(""), IsEmpty());
    EXPECT_THAT(parse_txgs("7 100 C 5\n"), IsEmpty()) << "no header";
    EXPECT_THAT(parse_txgs("txg birth state stime\n"), IsEmpty()) << "zfs_txg_history = 0";
    const auto rows = parse_txgs("txg birth state stime\n"
                                 "1 2 C\n"
                                 "1 2 CC 4\n"
                                 "1 -2 C 4\n"
                                 "1 2 C 99999999999999999999\n"
                                 "\n"
                                 "8 2 C 4\n"
                                 "9 2 S");
    ASSERT_THAT(rows, SizeIs(1));
    EXPECT_EQ(rows[0].txg, 8u);
}

TEST(ZfsStack, FramesAndWhoseTheyAre) {
    const auto writer = parse_kernel_stack(recorded("proc/281/task/281/stack"));
    ASSERT_THAT(writer, SizeIs(11));
    EXPECT_EQ(writer[0], "cv_wait_common+0xaa/0x130 [spl]");
    EXPECT_EQ(writer[4], "dmu_tx_assign+0x15e/0x510 [zfs]");
    EXPECT_TRUE(in_zfs(writer));
    EXPECT_FALSE(in_zfs(parse_kernel_stack(recorded("proc/1/task/1/stack"))));
    EXPECT_THAT(parse_kernel_stack("[<ffffffff81000000>] old+0x1/0x2\n[<0>]\n[<0>] \nnonsense\n"),
                ElementsAre("old+0x1/0x2"));
    EXPECT_FALSE(in_zfs({"zfs_write+0x1/0x2 [zfsx]", "zfs"}));
}

} // namespace
} // namespace incident::capture
