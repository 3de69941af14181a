// TxgSyncs with probes and times of the test's own, over trees made for it.
#include "daemon/watch/txg/txg_syncs.h"

#include <gmock/gmock.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t S = 1'000'000'000, MS = 1'000'000;

class TxgSyncsTest : public testing::Test {
protected:
    TxgSyncsTest() {
        std::string name = (fs::temp_directory_path() / "txg_watch.XXXXXX").string();
        root = ::mkdtemp(name.data());
        os.proc = (root / "proc").string();
        os.sys = (root / "sys").string();
        fs::create_directories(root / "proc/spl/kstat");
        fs::create_directories(root / "sys/module");
    }
    ~TxgSyncsTest() override { fs::remove_all(root); }

    void write(const fs::path &path, const std::string &text) {
        fs::create_directories((root / path).parent_path());
        std::ofstream(root / path) << text;
    }
    void load_module(const std::string &initstate = "live\n") {
        write("sys/module/zfs/initstate", initstate);
        fs::create_directories(root / "proc/spl/kstat/zfs");
    }
    // rows: "txg birth state otime qtime wtime stime"
    void pool(const std::string &name, const std::string &rows) {
        write("proc/spl/kstat/zfs/" + name + "/txgs", "txg birth state otime qtime wtime stime\n" + rows);
    }

    TxgProbes probes() {
        const auto attach = [this](const char *way, const bool &works) -> Result<std::vector<Attached>> {
            tried.emplace_back(way);
            if (!works)
                return fail(std::string(way) + " refused\nmore");
            std::vector<Attached> all;
            ++attached;
            all.push_back(Attached(&attached, [](void *count) { --*static_cast<int *>(count); }));
            return all;
        };
        return {[=, this] { return attach("fentry", fentry_works); },
                [=, this] { return attach("kprobe", kprobe_works); },
                [this] { return std::span<const bpf::txg_sync>(syncs); },
                [this](std::uint64_t ns) -> Status {
                    threshold = ns;
                    return {};
                }};
    }
    TxgSyncs watch(std::vector<std::uint64_t> thresholds = {5 * S}) {
        TxgSyncs made(os, probes());
        made.set_thresholds(std::move(thresholds));
        return made;
    }
    // The two clocks run apart in the tests, as they do.
    static TxgSyncs::Now at(std::uint64_t ns) { return {{ns}, {raw(ns)}}; }
    static std::uint64_t raw(std::uint64_t ns) { return ns - 7 * S; }
    static std::string row(std::uint64_t txg, char state, std::uint64_t start, std::uint64_t took = 0) {
        return std::to_string(txg) + " " + std::to_string(raw(start) - 60) + " " + state + " 10 20 30 " +
               std::to_string(took) + "\n";
    }

    void begin(int index, const char *name, std::uint64_t txg, std::uint64_t start) {
        syncs[index] = {2, txg, start, 100u + index, 1, {}};
        std::strcpy(syncs[index].pool, name);
    }
    void end(int index) { syncs[index].in_flight = syncs[index].tid = 0; }

    fs::path root;
    capture::OsRoots os;
    std::array<bpf::txg_sync, TXG_SYNCS> syncs{};
    bool fentry_works = false, kprobe_works = true;
    std::vector<std::string> tried;
    int attached = 0;
    std::uint64_t threshold = 0;
};

TEST_F(TxgSyncsTest, WithoutRulesNothingIsDone) {
    load_module();
    TxgSyncs none = watch({});
    EXPECT_THAT(none.look(at(100 * S)), IsEmpty());
    EXPECT_EQ(none.next_look_ns(), 0u);
    EXPECT_THAT(tried, IsEmpty());
    EXPECT_EQ(none.state().state, "unavailable");
}

TEST_F(TxgSyncsTest, BecomesActiveWhenTheModuleComes) {
    TxgSyncs watched = watch();
    EXPECT_EQ(watched.next_look_ns(), 1u);
    watched.look(at(100 * S));
    EXPECT_EQ(watched.state().state, "unavailable");
    EXPECT_EQ(watched.state().reason, "no zfs");
    EXPECT_EQ(watched.next_look_ns(), 110 * S);
    load_module("coming\n");
    watched.look(at(110 * S));
    EXPECT_EQ(watched.state().reason, "no zfs");
    load_module();
    watched.look(at(120 * S));
    EXPECT_EQ(watched.state().state, "active");
    EXPECT_EQ(watched.state().reason, "kprobe");
    EXPECT_EQ(threshold, 5 * S);
    EXPECT_EQ(attached, 1);
    watched.look(at(125 * S));
    EXPECT_THAT(tried, ElementsAre("kprobe")) << "attached once";
    fs::remove_all(root / "sys/module/zfs");
    watched.look(at(130 * S));
    EXPECT_EQ(watched.state().reason, "no zfs");
    EXPECT_EQ(attached, 0);
}

TEST_F(TxgSyncsTest, FentryWhereTheModuleHasBtfAndAPool) {
    load_module();
    write("sys/kernel/btf/zfs", "");
    fentry_works = true;
    TxgSyncs watched = watch();
    watched.look(at(100 * S));
    EXPECT_EQ(watched.state().reason, "no pool") << "it would hold the module";
    pool("tank", "");
    watched.look(at(110 * S));
    EXPECT_EQ(watched.state().reason, "fentry");
    EXPECT_THAT(tried, ElementsAre("fentry"));
    fs::remove_all(root / "proc/spl/kstat/zfs/tank");
    watched.look(at(120 * S));
    EXPECT_EQ(attached, 0);
    fentry_works = false;
    pool("tank", "");
    watched.look(at(130 * S));
    EXPECT_EQ(watched.state().state, "active");
    EXPECT_EQ(watched.state().reason, "kprobe (fentry refused)");
}

TEST_F(TxgSyncsTest, NothingLeft) {
    load_module();
    kprobe_works = false;
    write("sys/module/zfs/parameters/zfs_txg_history", "0\n");
    TxgSyncs watched = watch();
    watched.look(at(100 * S));
    EXPECT_EQ(watched.state().state, "unavailable");
    EXPECT_EQ(watched.state().reason, "no probes (kprobe refused), and the kstat keeps no groups: zfs_txg_history = 0");
    write("sys/module/zfs/parameters/zfs_txg_history", "100\n");
    watched.look(at(110 * S));
    EXPECT_EQ(watched.state().state, "degraded");
    EXPECT_THAT(watched.state().reason, HasSubstr("kstat, "));
}

TEST_F(TxgSyncsTest, AStallIsToldOnceInFlightAndOnceAtItsReturn) {
    load_module();
    TxgSyncs watched = watch();
    watched.look(at(100 * S));
    begin(3, "tank", 42, 101 * S);
    EXPECT_THAT(watched.look(at(103 * S)), IsEmpty());
    EXPECT_EQ(watched.next_look_ns(), 106 * S + MS) << "when the one in flight reaches the threshold";
    const auto told = watched.look(at(106 * S + MS));
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].pool, "tank");
    EXPECT_EQ(told[0].txg, 42u);
    EXPECT_EQ(told[0].elapsed_ns, 5 * S + MS);
    EXPECT_TRUE(told[0].in_flight);
    EXPECT_EQ(told[0].passed_ns, 5 * S);
    EXPECT_EQ(told[0].tid, 103u);
    EXPECT_THAT(watched.look(at(111 * S)), IsEmpty());
    EXPECT_EQ(watched.next_look_ns(), 116 * S + MS);

    bpf::txg_event event{};
    event.h.kind = bpf::EVENT_TXG;
    event.h.t_ns = 112 * S;
    event.h.tid = 103;
    event.txg = 42;
    event.start_ns = 101 * S;
    event.elapsed_ns = 11 * S;
    std::strcpy(event.pool, "tank");
    std::span bytes(reinterpret_cast<const std::uint8_t *>(&event), sizeof(event));
    const auto over = watched.on_event(bytes);
    ASSERT_TRUE(over);
    EXPECT_EQ(over->pool, "tank");
    EXPECT_EQ(over->elapsed_ns, 11 * S);
    EXPECT_FALSE(over->in_flight);
    EXPECT_FALSE(watched.on_event(bytes.first(100)));
    event.elapsed_ns = 4 * S;
    EXPECT_FALSE(watched.on_event(bytes)) << "the threshold was lower when it was sent";
}

TEST_F(TxgSyncsTest, EachThresholdAndPoolByItself) {
    load_module();
    TxgSyncs watched = watch({30 * S, 5 * S, 5 * S, 10 * S});
    EXPECT_EQ((watched.look(at(100 * S)), threshold), 5 * S);
    begin(0, "tank", 1, 100 * S);
    begin(1, "fast", 1, 104 * S);
    auto told = watched.look(at(106 * S));
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].pool, "tank");
    EXPECT_EQ(watched.next_look_ns(), 109 * S + MS);
    end(1);
    told = watched.look(at(131 * S)); // late: two thresholds passed
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].passed_ns, 30 * S);
    begin(0, "tank", 2, 132 * S); // the next group of the same thread
    told = watched.look(at(137 * S));
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].txg, 2u);
    watched.set_thresholds({2 * S});
    EXPECT_EQ(threshold, 2 * S);
    EXPECT_THAT(watched.look(at(138 * S)), IsEmpty()) << "told of more already";
    EXPECT_THAT(tried, ElementsAre("kprobe")) << "other rules do not take the probes away";
    watched.set_thresholds({});
    watched.look(at(139 * S));
    EXPECT_EQ(attached, 0);
}

TEST_F(TxgSyncsTest, AMissedReturnIsNoStall) {
    load_module();
    TxgSyncs watched = watch();
    watched.look(at(100 * S));
    begin(0, "tank", 9, 101 * S);
    begin(1, "slow", 9, 101 * S);
    pool("tank", row(9, 'C', 101 * S, 10 * MS));
    pool("slow", row(9, 'C', 101 * S, 6 * S));
    const auto told = watched.look(at(110 * S));
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].pool, "slow");
    EXPECT_FALSE(told[0].in_flight);
    EXPECT_EQ(told[0].elapsed_ns, 6 * S);
    EXPECT_THAT(watched.look(at(120 * S)), IsEmpty());
    EXPECT_THAT(watched.look(at(125 * S)), IsEmpty());
}

TEST_F(TxgSyncsTest, AnEntryHalfWrittenIsLookedAtAgain) {
    load_module();
    TxgSyncs watched = watch();
    watched.look(at(100 * S));
    begin(0, "tank", 9, 101 * S);
    syncs[0].seq = 3;
    EXPECT_THAT(watched.look(at(110 * S)), IsEmpty());
    EXPECT_EQ(watched.next_look_ns(), 110 * S + MS);
    syncs[0].seq = 4;
    EXPECT_THAT(watched.look(at(110 * S + MS)), SizeIs(1));
}

TEST_F(TxgSyncsTest, WhatWasInFlightBeforeTheProbesIsFollowedInTheKstat) {
    load_module();
    begin(5, "old", 3, 10 * S); // left over from earlier probes
    pool("tank", row(11, 'C', 80 * S, 6 * S) + row(12, 'S', 90 * S));
    TxgSyncs watched = watch();
    auto told = watched.look(at(100 * S));
    ASSERT_THAT(told, SizeIs(1)) << "11 is past, as seen from here";
    EXPECT_EQ(told[0].txg, 12u);
    EXPECT_EQ(told[0].elapsed_ns, 10 * S);
    EXPECT_EQ(told[0].start_ns, 90 * S);
    EXPECT_EQ(watched.next_look_ns(), 100 * S + 250 * MS);
    pool("tank", row(12, 'C', 90 * S, 10 * S + MS) + row(13, 'S', 101 * S));
    told = watched.look(at(101 * S + 250 * MS));
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_EQ(told[0].txg, 12u);
    EXPECT_FALSE(told[0].in_flight);
    EXPECT_EQ(told[0].t_ns, 100 * S + MS);
    EXPECT_THAT(watched.look(at(107 * S)), IsEmpty()) << "13 is the probes' business";
}

TEST_F(TxgSyncsTest, ByKstatAlone) {
    load_module();
    kprobe_works = false;
    pool("tank", row(4, 'C', 90 * S, 9 * S) + row(5, 'O', 99 * S));
    TxgSyncs watched = watch();
    EXPECT_THAT(watched.look(at(100 * S)), IsEmpty());
    EXPECT_EQ(watched.next_look_ns(), 105 * S + MS);
    pool("tank", row(5, 'S', 102 * S));
    EXPECT_THAT(watched.look(at(105 * S + MS)), IsEmpty());
    EXPECT_EQ(watched.next_look_ns(), 107 * S + MS);
    auto told = watched.look(at(107 * S + MS));
    ASSERT_THAT(told, SizeIs(1));
    EXPECT_TRUE(told[0].in_flight);
    EXPECT_EQ(watched.next_look_ns(), 107 * S + 251 * MS) << "followed, for many quick groups may come after it";
    pool("tank", row(5, 'C', 102 * S, 6 * S) + row(6, 'C', 108 * S, 5 * S) + row(7, 'O', 113 * S));
    told = watched.look(at(114 * S));
    ASSERT_THAT(told, SizeIs(2));
    EXPECT_EQ(told[0].txg, 5u);
    EXPECT_EQ(told[0].t_ns, 108 * S);
    EXPECT_EQ(told[1].txg, 6u);
    EXPECT_THAT(watched.look(at(119 * S)), IsEmpty());
    // Another pool of that name: its numbers begin again.
    pool("tank", row(3, 'C', 120 * S, 8 * S));
    EXPECT_THAT(watched.look(at(130 * S)), IsEmpty());
    pool("tank", row(3, 'C', 120 * S, 8 * S) + row(4, 'C', 131 * S, 8 * S));
    EXPECT_THAT(watched.look(at(140 * S)), SizeIs(1));
}

} // namespace
} // namespace incident::daemon
