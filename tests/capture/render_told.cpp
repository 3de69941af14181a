// What a bundle calls a thread, which call it shows beside it, whom it calls the sender, and how much memory it had.
#include "render_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace incident::capture {
namespace {

using test::call;
using test::Made;
using test::second;
using test::trigger_ns;
using ::testing::HasSubstr;
using ::testing::Not;

struct Living : Made {
    explicit Living(Trigger trigger) {
        input.trigger = std::move(trigger);
        input.rule.kind = "exit";
        bpf::death_event &event = input.process.event;
        event.fatal = 0;
        event.number = event.delivered = 0;
        event.has_siginfo = 0;
        event.disposition = 0;
    }
};

TEST(RenderTold, OnlyTheThreadThatDiedOfTheSignalHasCrashed) {
    EXPECT_EQ(Made().threads()[0]["crashed"], true);
    EXPECT_EQ(Made().threads()[1]["crashed"], false);
    for (const Trigger &trigger : {Trigger(ExitTrigger{3}), Trigger(MemoryTrigger{1, 0, {}}), Trigger(LatencyTrigger{}),
                                   Trigger(SyscallTrigger{}), Trigger(SignalTrigger{})})
        for (const auto &thread : Living(trigger).threads())
            EXPECT_EQ(thread["crashed"], false) << trigger.index();
}

TEST(RenderTold, TheCallBesideTheThreadIsNotOneItMadeAfterTheTrigger) {
    Living made{LatencyTrigger{}};
    made.add_call(call(SYS_openat, trigger_ns - 3000, 3));
    made.add_call(call(SYS_read, trigger_ns - 2000, 1, {}, 500));
    made.add_call(call(SYS_epoll_wait, trigger_ns + 10, 0, {}, IN_FLIGHT));
    auto told = made.threads()[0]["syscall"];
    EXPECT_EQ(told["name"], "read");
    EXPECT_EQ(told["in_flight"], false);
    // In a call then, which has returned by now.
    made.thread(0).rings->syscalls[1].duration_ns = 5000;
    told = made.threads()[0]["syscall"];
    EXPECT_EQ(told["name"], "read");
    EXPECT_EQ(told["in_flight"], true);
    EXPECT_EQ(told["elapsed_ns"], 2000);
    EXPECT_TRUE(told["ret"].is_null());
    // All that is kept came later.
    made.thread(0).rings->syscalls.erase(made.thread(0).rings->syscalls.begin(),
                                         made.thread(0).rings->syscalls.begin() + 2);
    EXPECT_TRUE(made.threads()[0]["syscall"].is_null());
    // Other threads are shown as they were when they were looked at, with their stacks.
    made.add_call(call(SYS_futex, trigger_ns + 10, 0, {}, IN_FLIGHT), 1);
    EXPECT_EQ(made.threads()[1]["syscall"]["name"], "futex");
}

TEST(RenderTold, OfAnExitTheCallThatExitsIsTold) {
    Living made{ExitTrigger{3}};
    made.add_call(call(SYS_close, trigger_ns - 2000, 0));
    made.add_call(call(SYS_exit_group, trigger_ns + 10, 0, {3}, IN_FLIGHT)); // the rule fires as it is entered
    EXPECT_EQ(made.threads()[0]["syscall"]["name"], "exit_group");
    EXPECT_THAT(made.summary(), HasSubstr("exit_group("));
}

TEST(RenderTold, OfADeathTheLastCallIsTold) {
    Made made;
    made.add_call(call(SYS_read, trigger_ns - 2000, -512, {}, 5000)); // broken off by the signal
    const auto told = made.threads()[0]["syscall"];
    EXPECT_EQ(told["in_flight"], false);
    EXPECT_EQ(told["interrupted"], true);
}

TEST(RenderTold, TheSummaryEndsAtTheTrigger) {
    Living made{SyscallTrigger{}};
    made.input.rule.kind = "syscall";
    made.add_call(call(SYS_read, trigger_ns - 2000, 1));
    made.add_call(call(SYS_epoll_wait, trigger_ns + 10, 0));
    EXPECT_THAT(made.summary(), HasSubstr("read("));
    EXPECT_THAT(made.summary(), Not(HasSubstr("epoll_wait(")));
    EXPECT_THAT(made.summary(), HasSubstr("0x401234")); // its stack, although it has not crashed
}

TEST(RenderTold, ThePeakIsNoLessThanWhatIsResident) {
    Made made;
    bpf::death_event &event = made.input.process.event;
    event.rss_anon_pages = 100;
    event.hiwater_rss_pages = 70; // brought up to date only where memory is given back
    event.total_vm_pages = 1000;
    event.hiwater_vm_pages = 900;
    const auto memory = made.incident()["memory"];
    EXPECT_EQ(memory["peak_rss_bytes"], 100 * 4096);
    EXPECT_EQ(memory["peak_vm_bytes"], 1000 * 4096);
    event.hiwater_rss_pages = 200;
    EXPECT_EQ(made.incident()["memory"]["peak_rss_bytes"], 200 * 4096);
    Living grown{MemoryTrigger{300 * 4096, 0, {{1, 400 * 4096}, {2, 300 * 4096}}}};
    EXPECT_EQ(grown.incident()["memory"]["peak_rss_bytes"], 400 * 4096);
}

TEST(RenderTold, WhatIsKnownOfMemoryBeginsWithTheProcess) {
    Living made{ExitTrigger{3}};
    made.input.process.event.rss_anon_pages = 5;
    made.input.process.entry.reset(); // it was gone before it was looked up
    // born at 7 s of the clock that counts suspends, 5 s of which had passed
    EXPECT_EQ(made.incident()["pages"]["from_ns"], 2 * second);
    // of which three passed later, in a sleep that it lived to see
    made.input.clocks.changes = {{{8 * second}, {13 * second}, 3 * second, 0}};
    EXPECT_EQ(made.incident()["pages"]["from_ns"], 5 * second);
    made.input.clocks.changes.clear();
    made.input.process.event.h.process_start_boot_ns = 0;
    EXPECT_TRUE(made.incident()["pages"]["from_ns"].is_null());
}

// --- senders

bpf::signal_record generated(int number, int code, std::uint32_t tgid) {
    bpf::signal_record record{};
    record.t_ns = trigger_ns - 10;
    record.number = static_cast<std::uint8_t>(number);
    record.code = code;
    record.target_tid = 101;
    record.sender_tgid = tgid;
    record.sender_tid = tgid + 1;
    record.phase = bpf::SIGNAL_GENERATED;
    return record;
}

struct Killed : Made {
    Killed(int number, int code, std::uint32_t from) {
        bpf::death_event &event = input.process.event;
        event.number = event.delivered = number;
        event.code = code;
        std::memcpy(event.siginfo + 16, &from, sizeof from);
    }
};

TEST(RenderTold, TheKernelsOwnSignalHasNoSender) {
    Killed made(SIGXFSZ, SI_USER, 100); // as SEND_SIG_NOINFO arrives
    made.add_signal(generated(SIGXFSZ, SI_KERNEL, 100));
    EXPECT_TRUE(made.incident()["signal"]["sender"].is_null());
    Killed asked(SIGXFSZ, SI_USER, 100); // kill(getpid(), SIGXFSZ)
    asked.add_signal(generated(SIGXFSZ, SI_USER, 100));
    EXPECT_EQ(asked.incident()["signal"]["sender"]["tid"], 101);
}

TEST(RenderTold, ASignalThatChangedNothingHasNotKilled) {
    Killed made(SIGTERM, SI_USER, 50);
    made.add_signal(generated(SIGTERM, SI_USER, 50));
    bpf::signal_record late = generated(SIGTERM, SI_USER, 60);
    late.result = 2; // TRACE_SIGNAL_ALREADY_PENDING
    made.add_signal(late);
    bpf::signal_record elsewhere = generated(SIGTERM, SI_TKILL, 70);
    elsewhere.code = SI_USER;
    elsewhere.target_tid = 100; // another thread's, blocked there
    made.add_signal(elsewhere);
    EXPECT_EQ(made.incident()["signal"]["sender"]["pid"], 50);
}

// --- threads that made no call

TEST(RenderTold, AThreadThatMadeNoCallMissesNone) {
    Made made; // a child of vfork(2)
    made.input.process.threads.resize(1);
    made.input.process.threads_expected = 1;
    made.thread(0).rings.reset();
    made.thread(0).event->slot = ~0u;
    EXPECT_EQ(made.incident()["quality"]["threads_captured"], 1);
    EXPECT_THAT(made.incident()["quality"]["missing"], ::testing::IsEmpty());
    made.input.process.entry->threads_unrecorded = 1; // or it had no slot
    EXPECT_THAT(made.incident()["quality"]["missing"], ::testing::SizeIs(1));
    made.input.process.entry.reset();
    EXPECT_THAT(made.incident()["quality"]["missing"], ::testing::SizeIs(1));
    EXPECT_EQ(made.incident()["quality"]["threads_captured"], 1) << "its past alone is missing";
}

} // namespace
} // namespace incident::capture
