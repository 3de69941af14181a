#include "render_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>

#include <cerrno>
#include <chrono>

namespace incident::capture {
namespace {

using test::call;
using test::Made;
using test::second;
using test::trigger_ns;
using ::testing::ElementsAre;

TEST(RenderTimeline, OneLineACallWithAllOfItsRecords) {
    Made made;
    made.open_file(5 * second, "/etc/x", -ENOENT, 0, O_RDONLY | O_CLOEXEC);
    made.add_call(call(SYS_mmap, 6 * second, 0x7f0000000000, {0, 8192, 3, 0x22, ~0ull, 0}, 2000));
    bpf::memory_record memory{};
    memory.start_ns = 6 * second;
    memory.t_ns = 6 * second + 2000;
    memory.nr = SYS_mmap;
    memory.delta = 8192;
    memory.rss_pages = 10;
    made.thread(0).rings->memory.push_back(memory);

    const auto lines = made.timeline();
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0].dump(),
              nlohmann::json::parse(R"({"t_ns":5000000000,"wall":"2026-11-21T14:06:45.000000000Z","tid":101,
        "kind":"open","name":"openat","args":["AT_FDCWD","\"/etc/x\"","O_RDONLY|O_CLOEXEC"],"ret":-2,"error":"ENOENT",
        "duration_ns":1000,"path":"/etc/x","fd":null,"in_flight":false})")
                  .dump());
    EXPECT_EQ(lines[1]["kind"], "syscall");
    EXPECT_EQ(lines[1]["ret_text"], "0x7f0000000000");
    EXPECT_EQ(lines[1]["memory"]["delta"], 8192);
    EXPECT_EQ(lines[1]["memory"]["rss"], 40960);
    EXPECT_EQ(lines[2]["kind"], "signal"); // the trigger itself, from the death event
    EXPECT_EQ(lines[2]["trigger"], true);
}

TEST(RenderTimeline, WhatWasBeforeTheClockWasSetIsTimedAsItShowedThen) {
    Made made;
    made.add_call(call(SYS_getpid, 4 * second, 1, {}));
    made.add_call(call(SYS_getpid, 6 * second, 1, {}));
    made.add_call(call(SYS_getpid, 8 * second, 1, {}));
    made.input.process.event.h.process_start_boot_ns = second;
    made.input.clocks.changes = {{{5 * second}, {5 * second}, 3600 * second, 0},
                                 {{7 * second}, {7 * second + 3600 * second}, 0, -60 * std::int64_t{second}}};
    const auto lines = made.timeline();
    ASSERT_EQ(lines.size(), 6u);
    std::vector<std::string> walls;
    for (const auto &line : lines)
        walls.push_back(line["wall"].get<std::string>().substr(11, 8));
    EXPECT_THAT(walls, ElementsAre("13:07:44", "14:07:45", "14:07:46", "14:06:47", "14:06:48", walls[5]));
    EXPECT_EQ(lines[1]["kind"], "clock");
    EXPECT_EQ(lines[1]["name"], "slept");
    EXPECT_EQ(lines[1]["slept_ns"], 3600 * second);
    EXPECT_TRUE(lines[1]["tid"].is_null());
    EXPECT_EQ(lines[3]["set_by_ns"], -60 * std::int64_t{second});
}

TEST(RenderTimeline, InFlightHasNoResult) {
    Made made;
    made.add_call(call(SYS_read, 9 * second, 12345, {3, 0x10, 99}, IN_FLIGHT));
    const auto line = made.timeline().at(0);
    EXPECT_TRUE(line["in_flight"].get<bool>());
    EXPECT_TRUE(line["ret"].is_null());
    EXPECT_TRUE(line["duration_ns"].is_null());
    EXPECT_TRUE(line["error"].is_null());
    EXPECT_EQ(line["fd"], 3);
}

TEST(RenderTimeline, WithoutItsEntryACallHasAResultAndNoDuration) {
    Made made;
    made.add_call(call(SYS_read, 9 * second, 12, {3, 0x10, 99}, NO_DURATION));
    auto gone = call(SYS_execve, 10 * second, 0, {1, 2, 3}, NO_DURATION);
    gone.flags = bpf::SYSCALL_ARGS_GONE;
    made.add_call(gone);
    const auto lines = made.timeline();
    EXPECT_FALSE(lines[0]["in_flight"].get<bool>());
    EXPECT_EQ(lines[0]["ret"], 12);
    EXPECT_EQ(lines[0]["args"].size(), 3u);
    EXPECT_TRUE(lines[0]["duration_ns"].is_null());
    EXPECT_EQ(lines[1]["name"], "execve");
    EXPECT_TRUE(lines[1]["args"].empty());
}

TEST(RenderTimeline, RestartsHaveTheirNames) {
    Made made;
    made.add_call(call(SYS_futex, 9 * second, -512, {0x10, 128, 0, 0}));
    EXPECT_EQ(made.timeline().at(0)["error"], "ERESTARTSYS");
}

TEST(RenderTimeline, RecordsWhoseCallIsGoneHaveALineOfTheirOwn) {
    Made made;
    bpf::memory_record memory{};
    memory.start_ns = 2 * second;
    memory.t_ns = 2 * second + 500;
    memory.nr = SYS_brk;
    memory.address = 0x555000;
    memory.delta = -4096;
    made.thread(0).rings->memory.push_back(memory);
    const auto lines = made.timeline();
    ASSERT_EQ(lines.size(), 2u);
    EXPECT_EQ(lines[0]["kind"], "alloc");
    EXPECT_EQ(lines[0]["name"], "brk");
    EXPECT_EQ(lines[0]["duration_ns"], 500);
    EXPECT_EQ(lines[0]["memory"]["delta"], -4096);
}

TEST(RenderTimeline, OrderedByTimeAcrossThreads) {
    Made made;
    made.add_call(call(SYS_getpid, 3 * second, 100), 0);
    made.add_call(call(SYS_getpid, 5 * second, 100), 0);
    made.add_call(call(SYS_getppid, 4 * second, 1), 1);
    const auto lines = made.timeline("syscall");
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0]["tid"], 101);
    EXPECT_EQ(lines[1]["tid"], 100);
    EXPECT_EQ(lines[2]["t_ns"], 5 * second);
}

TEST(RenderTimeline, PathsThatAreNotWholeSaySo) {
    Made made;
    made.open_file(1 * second, "/a/long/way", 3).status = bpf::PATH_CUT;
    made.open_file(2 * second, "", -EFAULT).status = bpf::PATH_FAULT;
    made.open_file(4 * second, "", 0).status = bpf::PATH_PENDING;
    made.thread(0).rings->syscalls.back().duration_ns = IN_FLIGHT;
    const auto lines = made.timeline("open");
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0]["path_cut"], true);
    EXPECT_EQ(lines[0]["args"][1], "\"/a/long/way\"...");
    EXPECT_EQ(lines[1]["path_error"], "not readable");
    EXPECT_TRUE(lines[1]["path"].is_null());
    EXPECT_EQ(lines[2]["path_error"], "not read yet");
    EXPECT_EQ(lines[2]["in_flight"], true);
}

TEST(RenderTimeline, HostileBytesStayJson) {
    Made made;
    made.open_file(1 * second, std::string("\x1b[2J\xff\"\\\n/etc\x00x", 14), 3);
    bpf::signal_record signal{};
    signal.phase = bpf::SIGNAL_GENERATED;
    signal.number = SIGTERM;
    signal.t_ns = 2 * second;
    std::memset(signal.sender_comm, '\xfe', sizeof signal.sender_comm); // no NUL either
    made.add_signal(signal);
    const std::string text = timeline_of(made.context(), made.redactor());
    for (const char c : text)
        EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
    const auto lines = made.timeline(); // parses
    EXPECT_NE(lines[0]["path"].get<std::string>().find("\xef\xbf\xbd"), std::string::npos);
    EXPECT_EQ(lines[1]["sender"]["comm"].get<std::string>().size(), 16u * 3);
}

TEST(RenderTimeline, DescriptorsCarryTheNameTheyWereOpenedWith) {
    Made made;
    made.open_file(1 * second, "/first", 3);
    made.add_call(call(SYS_read, 2 * second, 1, {3}));
    made.add_call(call(SYS_dup, 3 * second, 7, {3}));
    made.add_call(call(SYS_close, 4 * second, 0, {3}));
    made.add_call(call(SYS_read, 5 * second, -EBADF, {3}));
    made.add_call(call(SYS_read, 5 * second + 5000, 1, {7}), 1); // another thread, the same table
    made.open_file(6 * second, "/second", 3, 1);
    made.add_call(call(SYS_write, 7 * second, 1, {3}));
    made.add_call(call(SYS_fcntl, 7 * second + 5000, 9, {7, F_DUPFD_CLOEXEC, 9}));
    made.add_call(call(SYS_close_range, 8 * second, 0, {3, 7, 0}));
    made.add_call(call(SYS_read, 8 * second + 5000, 1, {7}));
    made.add_call(call(SYS_read, 9 * second, 1, {9}));
    std::map<std::uint64_t, std::string> names;
    for (const auto &line : made.timeline("syscall"))
        names[line["t_ns"]] = line.value("fd_path", "");
    EXPECT_EQ(names[2 * second], "/first");
    EXPECT_EQ(names[4 * second], "/first"); // what close closes
    EXPECT_EQ(names[5 * second], "");
    EXPECT_EQ(names[5 * second + 5000], "/first");
    EXPECT_EQ(names[7 * second], "/second");
    EXPECT_EQ(names[8 * second + 5000], "");
    EXPECT_EQ(names[9 * second], "/first");
}

TEST(RenderTimeline, ListedDescriptorsCountOnlyWhereNothingChangedSince) {
    Made made;
    made.collected.files["process/fds"] = "{\"fd\":0,\"target\":\"/dev/null\"}\n{\"fd\":3,\"target\":\"/late\"}\n"
                                          "{\"fd\":4,\"target\":\"socket:[99]\"}\nnot json\n{\"fd\":9}\n";
    made.add_call(call(SYS_read, 1 * second, 1, {0}));
    made.add_call(call(SYS_read, 1 * second + 5000, 1, {3})); // not yet /late: 3 is closed and made anew below
    made.add_call(call(SYS_close, 2 * second, 0, {3}));
    made.add_call(call(SYS_socket, 3 * second, 4, {1, 1, 0}));
    made.add_call(call(SYS_sendto, 4 * second, 1, {4}));
    made.add_call(call(SYS_read, 5 * second, 1, {9}));
    std::map<std::uint64_t, std::string> names, from;
    for (const auto &line : made.timeline("syscall")) {
        names[line["t_ns"]] = line.value("fd_path", "");
        from[line["t_ns"]] = line.value("fd_path_from", "");
    }
    EXPECT_EQ(names[1 * second], "/dev/null");
    EXPECT_EQ(from[1 * second], "end");
    EXPECT_EQ(names[1 * second + 5000], "");
    EXPECT_EQ(names[4 * second], "socket:[99]");
    EXPECT_EQ(names[5 * second], "");
}

TEST(RenderTimeline, ExecClosesWhatIsMarkedSo) {
    Made made;
    made.open_file(1 * second, "/kept", 3);
    made.open_file(2 * second, "/dropped", 4, 0, O_CLOEXEC);
    made.add_call(call(SYS_execve, 3 * second, 0, {0x10}));
    made.add_call(call(SYS_read, 4 * second, 1, {3}));
    made.add_call(call(SYS_read, 5 * second, 1, {4}));
    const auto lines = made.timeline("syscall");
    EXPECT_EQ(lines[1].value("fd_path", ""), "/kept");
    EXPECT_EQ(lines[2].value("fd_path", ""), "");
}

TEST(RenderTimeline, OpensBelowAKnownDirectoryAreJoined) {
    Made made;
    made.open_file(1 * second, "/srv/data", 5);
    made.open_file(2 * second, "a/b", 6, 0, 0, 5);
    made.add_call(call(SYS_read, 3 * second, 1, {6}));
    EXPECT_EQ(made.timeline("syscall").at(0)["fd_path"], "/srv/data/a/b");
}

TEST(RenderTimeline, SignalsSayWhoAndWhat) {
    Made made;
    bpf::signal_record sent{};
    sent.t_ns = 9 * second;
    sent.number = SIGTERM;
    sent.code = SI_USER;
    sent.target_tid = 100;
    sent.sender_tgid = 55;
    sent.sender_tid = 56;
    sent.phase = bpf::SIGNAL_GENERATED;
    sent.group = 1;
    test::set_text(sent.sender_comm, "killer");
    made.add_signal(sent);
    bpf::signal_record fault{};
    fault.t_ns = trigger_ns - 10;
    fault.number = SIGSEGV;
    fault.code = SEGV_MAPERR;
    fault.target_tid = 101;
    fault.address = 0x10;
    fault.phase = bpf::SIGNAL_GENERATED;
    made.add_signal(fault);
    fault.t_ns = trigger_ns - 5;
    fault.phase = bpf::SIGNAL_DELIVERED;
    fault.disposition = bpf::DISPOSITION_FATAL;
    made.add_signal(fault);
    made.add_signal(fault).seq = 99; // torn

    const auto lines = made.timeline("signal");
    ASSERT_EQ(lines.size(), 3u);
    EXPECT_EQ(lines[0]["sender"]["comm"], "killer");
    EXPECT_EQ(lines[0]["result"], "delivered");
    EXPECT_TRUE(lines[0]["address"].is_null());
    EXPECT_TRUE(lines[1]["sender"].is_null());
    EXPECT_EQ(lines[1]["address"], "0x10");
    EXPECT_EQ(lines[2]["disposition"], "fatal");
    EXPECT_EQ(lines[2]["trigger"], true);
    EXPECT_EQ(made.incident()["quality"]["losses"][0]["where"], "signals");
}

TEST(RenderTimeline, LineageAndExits) {
    Made made;
    bpf::process_entry &entry = *made.input.process.entry;
    entry.exec_ns = 2 * second;
    test::set_text(entry.exec_name, "/usr/bin/app");
    entry.line[0] = {1 * second, bpf::LINEAGE_FORK, 100, 0, 0, "sh"};
    entry.line[1] = {2 * second, bpf::LINEAGE_EXEC, 100, 0, 0, "app"};
    entry.line[2] = {3 * second, bpf::LINEAGE_CHILD, 200, 0, 0, "kid"};
    entry.line[3] = {4 * second, bpf::LINEAGE_CHILD_EXIT, 200, 0x8b, 0, "kid"};
    entry.lineage = 4;
    made.thread(1).rings->slot.exit_ns = 9 * second;
    const auto lines = made.timeline();
    ASSERT_EQ(lines.size(), 6u);
    EXPECT_EQ(lines[0]["kind"], "fork");
    EXPECT_EQ(lines[1]["kind"], "exec");
    EXPECT_EQ(lines[1]["path"], "/usr/bin/app");
    EXPECT_EQ(lines[2]["child"], 200);
    EXPECT_EQ(lines[3]["status_text"], "killed by SIGSEGV (core dumped)");
    EXPECT_EQ(lines[4]["kind"], "exit");
}

TEST(RenderTimeline, RingsThatWrappedShowTheNewest) {
    Made made;
    for (std::uint64_t i = 0; i < SIGNAL_RECORDS + 3; ++i) {
        bpf::signal_record record{};
        record.t_ns = i + 1;
        record.number = SIGUSR1;
        record.phase = bpf::SIGNAL_GENERATED;
        made.add_signal(record);
    }
    const auto lines = made.timeline("signal");
    ASSERT_EQ(lines.size(), SIGNAL_RECORDS + 1u); // and the trigger
    EXPECT_EQ(lines[0]["t_ns"], 4);
}

// 100 threads with full rings: rendered while the process waits to be gone.
TEST(RenderTimeline, AHundredThreads) {
    Made made;
    for (std::uint32_t i = 2; i < 100; ++i)
        made.add_thread(100 + i, "w");
    for (std::size_t t = 0; t < 100; ++t)
        for (std::uint64_t i = 0; i < 128; ++i) {
            const std::uint64_t at = second + i * 1'000'000 + t * 1000;
            switch (i % 4) {
            case 0:
                made.open_file(at, "/var/lib/app/data-" + std::to_string(i), static_cast<std::int64_t>(10 + i), t);
                break;
            case 1:
                made.add_call(call(SYS_read, at, 4096, {9 + i, 0x7f0012345678, 4096}), t);
                break;
            case 2:
                made.add_call(call(SYS_futex, at, 0, {0x7f0012345678, 129, 1}), t);
                break;
            default:
                made.add_call(call(SYS_close, at, 0, {10 + i}), t);
                break;
            }
        }
    const auto begin = std::chrono::steady_clock::now();
    const std::string text = timeline_of(made.context(), made.redactor());
    const auto took = std::chrono::steady_clock::now() - begin;
    EXPECT_EQ(std::ranges::count(text, '\n'), 100 * 128 + 1);
    RecordProperty("timeline_us",
                   static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
    const auto all_begin = std::chrono::steady_clock::now();
    (void)render_all(made.context());
    const auto all = std::chrono::steady_clock::now() - all_begin;
    RecordProperty("all_us", static_cast<int>(std::chrono::duration_cast<std::chrono::microseconds>(all).count()));
}

} // namespace
} // namespace incident::capture
