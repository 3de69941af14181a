// Events come over a ring buffer whose bytes are whatever stood there before: nothing
// beyond what the kernel side filled in may be believed, or end up in a bundle.
#include "daemon/facts/facts.h"

#include "daemon/facts/facts_cache.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace incident::daemon {
namespace {

template <typename T> T garbage() {
    T event;
    std::memset(static_cast<void *>(&event), 0x5a, sizeof(event));
    return event;
}

TEST(Tidy, BringsCountsOfADeathWithinItsArrays) {
    auto event = garbage<bpf::death_event>();
    tidy(event);
    EXPECT_LE(event.args_length, ARGS_LEN);
    EXPECT_LE(event.exe.parts, PATH_PARTS);
    EXPECT_LE(event.cgroup_parts, CGROUP_PARTS);
    EXPECT_LE(event.vmas, VMA_RECORDS);
    EXPECT_EQ(event.comm[COMM_LEN - 1], 0);
    EXPECT_LE(event.exe.length, sizeof event.exe.names);
}

TEST(Tidy, ZeroesWhatWasNotFilledIn) {
    auto event = garbage<bpf::death_event>();
    event.args_length = 3;
    event.exe.parts = 1;
    event.exe.length = 4;
    event.cgroup_parts = 0;
    event.vmas = 0;
    event.has_siginfo = 0;
    tidy(event);
    EXPECT_EQ(event.args[2], 0x5a);
    EXPECT_EQ(event.args[3], 0);
    EXPECT_EQ(event.exe.names[3], 0x5a);
    EXPECT_EQ(event.exe.names[4], 0);
    EXPECT_EQ(event.cgroup[0][0], 0);
    EXPECT_EQ(event.vma[0].start, 0u);
    EXPECT_EQ(event.siginfo[0], 0);
}

TEST(Tidy, ZeroesTheUnreadPartOfAWindow) {
    auto event = garbage<bpf::thread_event>();
    event.window[0].length = 8;
    event.kernel_frames = 1000;
    tidy(event);
    EXPECT_EQ(event.window[0].bytes[7], 0x5a);
    EXPECT_EQ(event.window[0].bytes[8], 0);
    EXPECT_EQ(event.kernel_frames, unsigned{KERNEL_FRAMES});
}

TEST(Paths, TheRootCgroupHasNoParts) {
    char parts[CGROUP_PARTS][CGROUP_PART_LEN] = {"foo.service", "system.slice"};
    EXPECT_EQ(cgroup_of(parts, 2), "/system.slice/foo.service");
    EXPECT_EQ(cgroup_of(parts, 0), "/");
}

TEST(Facts, OfAnotherProgramExecutedSinceAreTold) {
    bpf::watch_event event{};
    EXPECT_TRUE(same_program(event, {})) << "a kernel thread";
    event.exe.parts = 2;
    event.exe.length = sizeof "python3.11\0bin";
    std::memcpy(event.exe.names, "python3.11\0bin", event.exe.length);
    EXPECT_TRUE(same_program(event, {.exe = "/usr/bin/python3.11"}));
    EXPECT_TRUE(same_program(event, {.exe = "/mnt/python3.11 (deleted)"}));
    EXPECT_FALSE(same_program(event, {.exe = "/usr/bin/incidentctl"}));
}

TEST(Facts, OfAProcessThatIsGoneAreTheKernels) {
    bpf::death_event event{};
    event.h.tgid = 0x7ffffff0; // beyond any pid_max
    event.euid = 33;
    std::strcpy(event.leader_comm, "nginx");
    event.exe.parts = 1;
    event.exe.length = sizeof "nginx";
    std::strcpy(event.exe.names, "nginx");
    event.cgroup_parts = 2;
    std::strcpy(event.cgroup[0], "nginx.service");
    std::strcpy(event.cgroup[1], "system.slice");
    const auto facts = facts_of({}, event);
    EXPECT_EQ(facts.exe, "/nginx");
    EXPECT_EQ(facts.unit, "nginx.service");
    EXPECT_EQ(facts.uid, 33u);
}

// On a v1 host /proc/PID/cgroup of a process that exits says "/" already.
TEST(Facts, TheRootGroupOfOneThatExitsIsNotPreferred) {
    const std::string root = ::testing::TempDir() + "facts-proc-" + std::to_string(::getpid());
    std::filesystem::create_directories(root + "/42");
    const auto write = [&](const char *name, std::string_view text) { std::ofstream(root + "/42/" + name) << text; };
    write("stat", "42 (nginx) S 1 42 42 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 100 0 0\n");
    write("status", "Name:\tnginx\nUid:\t33\t34\t33\t33\n");
    write("cgroup", "1:name=systemd:/\n0::/\n");
    bpf::death_event event{};
    event.h.tgid = 42;
    event.uid = 1000;
    event.h.process_start_boot_ns = 100ULL * 1'000'000'000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    event.cgroup_parts = 2;
    std::strcpy(event.cgroup[0], "nginx.service");
    std::strcpy(event.cgroup[1], "system.slice");
    auto facts = facts_of({.proc = root}, event);
    EXPECT_EQ(facts.uid, 34u) << "it is that process";
    EXPECT_EQ(facts.real_uid, 1000u) << "as it died, whoever it was";
    EXPECT_EQ(facts.cgroup, "/system.slice/nginx.service");
    EXPECT_EQ(facts.unit, "nginx.service");
    write("cgroup", "0::/system.slice/other.service\n");
    facts = facts_of({.proc = root}, event);
    EXPECT_EQ(facts.unit, "other.service");
    std::filesystem::remove_all(root);
}

// What was learnt of a program serves when its process is gone.  Whoever starts program after program, or names himself
// anew without end, makes only what he taught be forgotten.
TEST(Facts, WhoIsGoneIsNotTakenForRoot) {
    FactsCache cache{{.proc = "/nonexistent"}};
    EXPECT_NE(cache.of(capture::ProcessRef{7, {1}}, std::nullopt, "gone").uid, 0u);
    bpf::process_entry entry{};
    entry.tgid = 8;
    entry.uid = 1000;
    EXPECT_EQ(cache.of(capture::ProcessRef{8, {1}}, entry, "gone").uid, 1000u) << "whose it was at its start";
    entry.tgid = 9;
    entry.key.exe_inode = 1;
    entry.key.uid = 34;
    EXPECT_EQ(cache.of(capture::ProcessRef{9, {1}}, entry, "gone").uid, 34u) << "whose it was at its last call";
}

// A latency rule's match: its process may have ended while the daemon was busy.
TEST(Facts, OfWhoHasGoneAreThoseThatItsRulesWereDecidedBy) {
    FactsCache cache{{.proc = "/nonexistent"}};
    rules::ProcessFacts facts;
    facts.pid = 7;
    facts.start_boot_ns = 1;
    facts.comm = "worker";
    facts.exe = "/usr/bin/worker";
    bpf::process_entry entry{};
    entry.tgid = 7;
    entry.start_boot_ns = 1;
    entry.execs = 1;
    entry.key.exe_inode = 5;
    cache.learn(entry.key, facts);
    EXPECT_EQ(cache.of(capture::ProcessRef{7, {1}}, entry, "worker").exe, "/usr/bin/worker");
    entry.key.exe_inode = 6;
    entry.execs = 2;
    EXPECT_EQ(cache.of(capture::ProcessRef{7, {1}}, entry, "worker").exe, "")
        << "of what it executed then nothing is known";
}

TEST(Facts, AFloodOfOneUsersProgramsForgetsNoneOfAnother) {
    FactsCache cache{{.proc = "/nonexistent"}};
    const auto key = [](std::uint32_t uid, std::uint64_t program) {
        bpf::watch_key made{};
        made.uid = uid;
        made.exe_inode = program;
        made.cgroup_set = 1;
        return made;
    };
    rules::ProcessFacts taught{.pid = 7, .start_boot_ns = 7, .uid = 0, .comm = "db", .exe = "/usr/bin/db"};
    taught.real_uid = 33;
    cache.learn(key(0, 1), taught);
    for (std::uint32_t i = 0; i < 20'000; ++i)
        cache.learn(key(1000, 100 + i), {.pid = 1000 + i, .start_boot_ns = i, .uid = 1000, .comm = "x", .exe = "/x"});
    bpf::trigger_head trigger{};
    trigger.h.tgid = 8;
    trigger.h.process_start_boot_ns = 8;
    trigger.key = key(0, 1);
    std::strcpy(trigger.comm, "another");
    EXPECT_EQ(cache.of(trigger).exe, "/usr/bin/db");
    EXPECT_EQ(cache.of(trigger).comm, "another");
    EXPECT_FALSE(cache.of(trigger).real_uid) << "that is of the other process";
}

} // namespace
} // namespace incident::daemon
