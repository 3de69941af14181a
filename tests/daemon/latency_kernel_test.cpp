// The kernel side of latency rules, for real: probes on a victim's functions, and what
// the programs make of the ways in which functions are left.  Needs root.
#include "capture/os/unique_fd.h"
#include "daemon/os/clocks.h"
#include "daemon/probe/exit_points.h"
#include "daemon/probe/probe_elf.h"
#include "daemon/record/recorder.h"
#include "slow_victim.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

namespace incident::daemon {
namespace {

using test::ms;
using test::Victim;
using testing::AllOf;
using testing::Each;
using testing::Ge;
using testing::Le;
using testing::SizeIs;

class LatencyInKernel : public testing::Test {
protected:
    void SetUp() override {
        if (::geteuid() != 0)
            GTEST_SKIP() << "needs root: loads BPF programs";
        rules::Config::Record record;
        auto started = Recorder::start(record, 8192);
        ASSERT_TRUE(started) << started.error().what;
        recorder.emplace(std::move(*started));
        recorder->apply(watching_everything());
        fd = UniqueFd(::open(test::slow_path().c_str(), O_RDONLY | O_CLOEXEC));
    }

    static rules::Engine watching_everything();

    // Probe `index` times function's calls; reports those of at least `threshold`.
    void probe(std::uint32_t index, const std::string &function, std::uint64_t threshold, const Victim &victim,
               Recorder::UprobeRole enter = Recorder::UprobeRole::EnterCall, const std::string &leave = "") {
        recorder->set_probe(index, {.threshold_ns = threshold, .capture_gap_ns = 0});
        put(index, function, enter, victim);
        put(index, leave.empty() ? function : leave,
            enter == Recorder::UprobeRole::EnterCall ? Recorder::UprobeRole::LeaveCall
                                                     : Recorder::UprobeRole::LeavePair,
            victim);
    }
    void put(std::uint32_t index, const std::string &function, Recorder::UprobeRole role, const Victim &victim) {
        const auto sites = find_function(
            fd.get(), {function, 0, role == Recorder::UprobeRole::LeaveCall && !return_probes}, abilities);
        ASSERT_TRUE(sites) << sites.error().what;
        const ProbeSite &site = sites->front();
        std::vector<FileOffset> offsets{site.offset};
        if (!site.returns.empty()) {
            offsets = site.returns;
            role = Recorder::UprobeRole::LeaveAtRet;
        }
        for (const auto offset : offsets) {
            auto link =
                recorder->attach(role, {"/proc/self/fd/" + std::to_string(fd.get()), offset, {}, victim.pid()}, index);
            ASSERT_TRUE(link) << link.error().what;
            links.push_back(std::move(*link));
        }
    }
    // As ExitProbes does.
    void follow_exits(const Victim &victim) {
        for (const std::string library : {"/lib/x86_64-linux-gnu/libgcc_s.so.1", "/lib/x86_64-linux-gnu/libc.so.6"}) {
            const UniqueFd file(::open(library.c_str(), O_RDONLY | O_CLOEXEC));
            const auto exits = find_exits(file.get(), abilities);
            ASSERT_TRUE(exits) << exits.error().what;
            ASSERT_FALSE(exits->points.empty()) << library;
            for (const auto &point : exits->points) {
                auto link = recorder->attach(point.role, {library, point.offset, {}, victim.pid()}, EXIT_PROBE);
                ASSERT_TRUE(link) << link.error().what;
                links.push_back(std::move(*link));
            }
        }
    }
    void consume() {
        const auto consumed = recorder->consume([&](std::span<const std::uint8_t> bytes) -> bool {
            const auto &header = *reinterpret_cast<const bpf::event_header *>(bytes.data());
            kinds.push_back(header.kind);
            if (header.kind == bpf::EVENT_LATENCY)
                events.push_back(*reinterpret_cast<const bpf::latency_event *>(bytes.data()));
            if (header.kind == bpf::EVENT_THREAD)
                threads.push_back(*reinterpret_cast<const bpf::thread_event *>(bytes.data()));
            return true;
        });
        ASSERT_TRUE(consumed);
    }
    // The victim's only thread's calls, as seen from here.
    std::optional<bpf::thread_calls> calls_of(std::uint32_t tid) {
        for (const auto slot : recorder->slots_with_calls())
            if (recorder->header(slot).tid == tid)
                if (const auto calls = recorder->calls(slot))
                    return *calls;
        return std::nullopt;
    }

    const UprobeAbilities abilities{};
    // The victim is C++: its returns are probed only where no exception can come.
    bool return_probes = true;
    std::optional<Recorder> recorder;
    std::vector<Attached> links;
    UniqueFd fd;
    std::vector<std::uint32_t> kinds;
    std::vector<bpf::latency_event> events;
    std::vector<bpf::thread_event> threads;
};

rules::Engine LatencyInKernel::watching_everything() {
    rules::Rule rule;
    rule.name = "everything";
    rule.conditions.push_back({"signal", rules::SignalCondition{}, {}});
    return rules::Engine({rule});
}

TEST_F(LatencyInKernel, ASlowCallIsReportedWithItsArgumentsResultAndWhereTimeWent) {
    Victim victim({"sleep", "3", "20"});
    probe(3, "probed_sleep", 10 * ms, victim);
    victim.run();
    consume();
    ASSERT_THAT(events, SizeIs(3));
    const auto &event = events.front();
    EXPECT_EQ(event.h.tid, victim.pid());
    EXPECT_EQ(event.probe, 3u);
    EXPECT_THAT(event.elapsed_ns, Ge(20 * ms));
    EXPECT_EQ(event.args[0], 20u);
    EXPECT_EQ(event.ret, 21u);
    EXPECT_EQ(event.syscalls_after - event.syscalls_before, 2u); // newfstatat, clock_nanosleep; no uretprobe call
    EXPECT_EQ(event.running_ns + event.runnable_ns + event.blocked_ns, event.elapsed_ns);
    EXPECT_GE(event.blocked_ns, 19 * ms);
    EXPECT_TRUE(event.captured);
    ASSERT_THAT(threads, SizeIs(3));
    EXPECT_EQ(threads.front().h.tid, victim.pid());
    EXPECT_EQ(threads.front().regs.ax, 21u);
    EXPECT_EQ(threads.front().slot, event.slot);
    // the three events of one report stand together, the latency event first
    const auto first = std::ranges::find(kinds, bpf::EVENT_LATENCY);
    EXPECT_EQ(*(first + 1), bpf::EVENT_SNAPSHOT);
    EXPECT_EQ(*(first + 2), bpf::EVENT_THREAD);
    const auto count = recorder->probe_count(3);
    EXPECT_EQ(count.calls, 3u);
    EXPECT_EQ(count.missed + count.overflow + count.unmatched + count.unsent, 0u);
}

TEST_F(LatencyInKernel, SpinningIsRunningNotBlocked) {
    const auto blocked = [](const bpf::latency_event &event) { return event.blocked_ns > event.elapsed_ns / 10; };
    constexpr int tries = 5; // on a busy machine a page of the program may be waited for
    for (int i = 0; i < tries && (i == 0 || std::ranges::any_of(events, blocked)); ++i) {
        events.clear();
        Victim victim({"spin", "2", "30"});
        probe(0, "probed_spin", 10 * ms, victim);
        victim.run();
        consume();
        ASSERT_THAT(events, SizeIs(2));
    }
    for (const auto &event : events) {
        EXPECT_EQ(event.running_ns + event.runnable_ns + event.blocked_ns, event.elapsed_ns);
        EXPECT_LE(event.blocked_ns, event.elapsed_ns / 10) << event.running_ns << ' ' << event.runnable_ns;
    }
}

TEST_F(LatencyInKernel, AFastCallIsNotReported) {
    Victim victim({"fast", "1000"});
    probe(1, "probed_fast", 10 * ms, victim);
    victim.run();
    consume();
    EXPECT_THAT(events, SizeIs(0));
    EXPECT_EQ(recorder->probe_count(1).calls, 1000u);
}

TEST_F(LatencyInKernel, RecursionIsTimedPerCall) {
    Victim victim({"recursive", "5", "20"});
    probe(2, "probed_recursive", 10 * ms, victim);
    victim.run();
    consume();
    ASSERT_THAT(events, SizeIs(5));
    for (std::uint32_t i = 0; i < 5; ++i) { // the innermost returns first
        EXPECT_EQ(events[i].args[0], i + 1);
        EXPECT_EQ(events[i].depth, 4 - i);
        if (i) {
            EXPECT_LT(events[i].start_ns, events[i - 1].start_ns);
        }
    }
    EXPECT_EQ(recorder->probe_count(2).missed, 0u);
}

TEST_F(LatencyInKernel, RecursionDeeperThanTheFramesIsCounted) {
    Victim victim({"recursive", "20", "20"});
    probe(2, "probed_recursive", 10 * ms, victim);
    victim.run();
    consume();
    ASSERT_THAT(events, SizeIs(CALL_DEPTH)); // the outermost ones
    EXPECT_EQ(events.back().args[0], 20u);
    const auto count = recorder->probe_count(2);
    EXPECT_EQ(count.calls, 20u);
    EXPECT_EQ(count.overflow, 20u - CALL_DEPTH);
    EXPECT_EQ(count.unmatched, 20u - CALL_DEPTH);
    EXPECT_EQ(count.missed, 0u);
}

class LeftWithoutReturn : public LatencyInKernel,
                          public testing::WithParamInterface<std::pair<const char *, const char *>> {};

TEST_P(LeftWithoutReturn, IsCountedAsMissedOnce) {
    const auto [mode, function] = GetParam();
    Victim victim({mode, "4", "1"});
    return_probes = false;
    probe(5, function, 10 * ms, victim);
    victim.run();
    victim.finish();
    consume();
    EXPECT_THAT(events, SizeIs(0));
    const auto count = recorder->probe_count(5);
    EXPECT_EQ(count.calls, 4u);
    EXPECT_EQ(count.missed, 4u);
    EXPECT_THAT(recorder->slots_with_calls(), SizeIs(0));
}

INSTANTIATE_TEST_SUITE_P(All, LeftWithoutReturn,
                         testing::Values(std::pair("jump", "probed_jump"), std::pair("throw", "probed_throw"),
                                         std::pair("thread_exit", "probed_exit_thread")),
                         [](const auto &mode) { return std::string(mode.param.first); });

class SeenToBeLeft : public LeftWithoutReturn {};

TEST_P(SeenToBeLeft, IsOverAtOnce) {
    const auto [mode, function] = GetParam();
    Victim victim({mode, "4", "1"});
    return_probes = false;
    follow_exits(victim);
    probe(5, function, 10 * ms, victim);
    victim.run(); // it has left the last of them, and calls nothing more
    const auto calls = calls_of(victim.pid());
    ASSERT_TRUE(calls);
    EXPECT_EQ(calls->depth, 0u);
    const auto count = recorder->probe_count(5);
    EXPECT_EQ(count.missed, 4u);
    EXPECT_EQ(count.left, 4u);
    EXPECT_GE(recorder->probe_count(EXIT_PROBE).calls, 4u);
}

INSTANTIATE_TEST_SUITE_P(All, SeenToBeLeft,
                         testing::Values(std::pair("jump", "probed_jump"), std::pair("throw", "probed_throw")),
                         [](const auto &mode) { return std::string(mode.param.first); });

TEST_F(LatencyInKernel, CallsLeftUnderTwoNamesAreNoLaterCalls) {
    Victim victim({"left", "12", "40"}); // more than there are frames
    return_probes = false;
    probe(1, "probed_jump", 20 * ms, victim);
    probe(2, "probed_jump", 20 * ms, victim);
    victim.run();
    consume();
    EXPECT_THAT(events, SizeIs(0));
    for (const std::uint32_t index : {1, 2}) {
        EXPECT_EQ(recorder->probe_count(index).missed, 12u);
        EXPECT_EQ(recorder->probe_count(index).unmatched, 0u);
        EXPECT_EQ(recorder->probe_count(index).overflow, 0u);
    }
}

TEST_F(LatencyInKernel, RetInstructionsServeWhereAReturnProbeMustNot) {
    Victim victim({"recursive", "4", "20"});
    return_probes = false;
    probe(2, "probed_recursive", 10 * ms, victim);
    victim.run();
    consume();
    ASSERT_THAT(events, SizeIs(4));
    EXPECT_EQ(events[3].args[0], 4u);
    EXPECT_EQ(events[3].ret, 4u);
    EXPECT_EQ(recorder->probe_count(2).missed + recorder->probe_count(2).unmatched, 0u);
}

TEST_F(LatencyInKernel, ATailCallKeepsBothFrames) {
    Victim victim({"tail", "3", "20"});
    probe(1, "probed_tail", 10 * ms, victim);
    probe(2, "probed_spin", 10 * ms, victim);
    victim.run();
    consume();
    EXPECT_THAT(events, SizeIs(6));
    for (const std::uint32_t index : {1, 2}) {
        EXPECT_EQ(recorder->probe_count(index).missed, 0u);
        EXPECT_EQ(recorder->probe_count(index).unmatched, 0u);
    }
}

TEST_F(LatencyInKernel, TwoProbesAtOneFunction) {
    Victim victim({"spin", "3", "20"});
    probe(1, "probed_spin", 10 * ms, victim);
    probe(2, "probed_spin", 10 * ms, victim);
    victim.run();
    consume();
    EXPECT_THAT(events, SizeIs(6));
    for (const std::uint32_t index : {1, 2})
        EXPECT_EQ(recorder->probe_count(index).missed + recorder->probe_count(index).unmatched, 0u);
}

TEST_F(LatencyInKernel, AHandlerOnItsOwnStackEndsNothing) {
    Victim victim({"signal", "1", "30"});
    probe(1, "probed_sleep", 0, victim);
    probe(2, "probed_handler", 0, victim);
    victim.run();
    consume();
    EXPECT_THAT(events, SizeIs(2));
    EXPECT_EQ(recorder->probe_count(1).missed + recorder->probe_count(2).missed, 0u);
    EXPECT_EQ(recorder->probe_count(1).unmatched + recorder->probe_count(2).unmatched, 0u);
}

TEST_F(LatencyInKernel, APairOfTwoFunctions) {
    Victim victim({"pair", "3", "20"});
    probe(4, "probed_begin", 10 * ms, victim, Recorder::UprobeRole::EnterPair, "probed_end");
    victim.run();
    consume();
    ASSERT_THAT(events, SizeIs(3));
    EXPECT_EQ(events[2].args[0], 2u);
    EXPECT_EQ(recorder->probe_count(4).missed, 0u);
}

TEST_F(LatencyInKernel, ALostLeaveIsReplacedByTheNextEnter) {
    Victim victim({"pair_lost", "20", "20"});
    probe(4, "probed_begin", 10 * ms, victim, Recorder::UprobeRole::EnterPair, "probed_end");
    victim.run();
    consume();
    ASSERT_THAT(events, SizeIs(1));
    EXPECT_THAT(events[0].elapsed_ns, Le(200 * ms));
    EXPECT_EQ(recorder->probe_count(4).missed, 19u);
    EXPECT_EQ(recorder->probe_count(4).overflow, 0u);
}

TEST_F(LatencyInKernel, TheChildOfAForkWithinTheCallHasNoFrame) {
    Victim victim({"fork", "2"});
    probe(6, "probed_fork", 1 * ms, victim);
    victim.run();
    consume();
    EXPECT_THAT(events, SizeIs(2));
    for (const auto &event : events)
        EXPECT_EQ(event.h.tgid, victim.pid());
}

TEST_F(LatencyInKernel, ACallInFlightIsSeenInTheMapping) {
    Victim victim({"recursive", "3", "300"});
    probe(2, "probed_recursive", ~0ull, victim);
    victim.go();
    std::optional<bpf::thread_calls> calls;
    for (int i = 0; i < 200 && !(calls && calls->depth == 3); ++i) {
        ::usleep(1000);
        calls = calls_of(victim.pid());
    }
    ASSERT_TRUE(calls);
    ASSERT_EQ(calls->depth, 3u);
    for (std::uint32_t i = 0; i < 3; ++i) {
        EXPECT_EQ(calls->frame[i].args[0], 3 - i);
        EXPECT_EQ(calls->frame[i].probe, 2u);
        EXPECT_LT(calls->frame[i].start_ns, clock_ns(CLOCK_MONOTONIC));
    }
    victim.wait_for_line();
    calls = calls_of(victim.pid());
    ASSERT_TRUE(calls);
    EXPECT_EQ(calls->depth, 0u);
    consume();
    EXPECT_THAT(events, SizeIs(0));
}

TEST_F(LatencyInKernel, CapturesKeepTheirDistanceEventsDoNot) {
    Victim victim({"sleep", "5", "10"});
    probe(3, "probed_sleep", 5 * ms, victim);
    recorder->set_probe(3, {.threshold_ns = 5 * ms, .capture_gap_ns = 10'000 * ms});
    victim.run();
    consume();
    EXPECT_THAT(events, SizeIs(5));
    EXPECT_THAT(threads, SizeIs(1));
}

} // namespace
} // namespace incident::daemon
