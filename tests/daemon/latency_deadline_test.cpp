// From a wanted probe to calls found overdue while they run, on the real kernel.  Needs root.
#include "daemon/os/clocks.h"
#include "daemon/watch/latency/latency_probes.h"
#include "slow_victim.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <optional>

namespace incident::daemon {
namespace {

using test::ms;
using test::Victim;
using testing::IsEmpty;
using testing::SizeIs;

class LatencyDeadline : public testing::Test {
protected:
    void SetUp() override {
        if (::geteuid() != 0)
            GTEST_SKIP() << "needs root: loads BPF programs";
        rules::Config::Record record;
        auto started = Recorder::start(record, 8192);
        ASSERT_TRUE(started) << started.error().what;
        recorder.emplace(std::move(*started));
        rules::Rule rule;
        rule.name = "everything";
        rule.conditions.push_back({"signal", rules::SignalCondition{}, {}});
        recorder->apply(rules::Engine({rule}));
        kernel.emplace(*recorder);
        probes.emplace(*kernel, capture::OsRoots{}, UprobeAbilities{});
    }
    WantedProbe wanted(const std::string &symbol, std::uint64_t threshold) {
        WantedProbe probe;
        probe.rule = "slow";
        probe.enter.binary = test::slow_path();
        probe.enter.symbol = probe.enter.text = symbol;
        probe.threshold_ns = threshold;
        probe.when = rules::When::Deadline;
        return probe;
    }
    void want(WantedProbe probe, const Victim &victim) {
        probes->set({std::move(probe)}, clock_ns(CLOCK_MONOTONIC));
        probes->process_seen(
            victim.pid(), [](const WantedProbe &) { return true; }, clock_ns(CLOCK_MONOTONIC));
        ASSERT_NE(probes->reports().front().state, ProbeReport::State::Unavailable) << probes->reports().front().reason;
    }
    // As the event loop does: sleeps until the next wake-up, for so long in all.
    void watch_for(std::uint64_t duration) {
        const std::uint64_t end = clock_ns(CLOCK_MONOTONIC) + duration;
        for (std::uint64_t now = clock_ns(CLOCK_MONOTONIC); now < end; now = clock_ns(CLOCK_MONOTONIC)) {
            const std::uint64_t next = std::min(end, probes->next_wake());
            if (next > now)
                ::usleep(static_cast<useconds_t>((next - now) / 1000 + 1));
            ++wakes;
            probes->wake(clock_ns(CLOCK_MONOTONIC), [this](const OverdueCall &call) { found.push_back(call); });
        }
    }

    std::optional<Recorder> recorder;
    std::optional<RecorderLatency> kernel;
    std::optional<LatencyProbes> probes;
    std::vector<OverdueCall> found;
    int wakes = 0;
};

TEST_F(LatencyDeadline, ACallIsFoundWhileItRunsOnceAndInTime) {
    Victim victim({"sleep", "2", "400"});
    want(wanted("probed_sleep", 50 * ms), victim);
    victim.go();
    watch_for(300 * ms);
    ASSERT_THAT(found, SizeIs(1));
    const auto &call = found.front();
    EXPECT_EQ(call.thread.tid, victim.pid());
    EXPECT_EQ(call.frame.args[0], 400u);
    const std::uint64_t late = call.now_ns - call.frame.start_ns - call.threshold_ns;
    RecordProperty("late_us", static_cast<int>(late / 1000));
    std::printf("# found %.2f ms after its 50 ms; %d wake-ups in 300 ms\n", static_cast<double>(late) / 1e6, wakes);
    const auto split = split_so_far({}, call.thread.tgid, call.thread.tid, call.frame, clock_ns(CLOCK_MONOTONIC));
    ASSERT_TRUE(split);
    EXPECT_GT(split->blocked_ns, 40 * ms);
    watch_for(400 * ms); // the second call
    EXPECT_THAT(found, SizeIs(2));
    EXPECT_LT(wakes, 40); // no polling
    EXPECT_EQ(victim.wait_for_line(), "sleep done");
}

TEST_F(LatencyDeadline, ACallLeftByAnExceptionIsNotFoundAndTheProgramSurvives) {
    Victim victim({"throw", "1", "1"});
    want(wanted("probed_throw", 30 * ms), victim);
    victim.go();
    EXPECT_EQ(victim.wait_for_line(), "throw done"); // it now waits for us, above that frame
    for (int i = 0; i < 1000 && std::ifstream("/proc/" + std::to_string(victim.pid()) + "/syscall").peek() == 'r'; ++i)
        ::usleep(1000); // while it is "running" nobody can tell
    watch_for(150 * ms);
    EXPECT_THAT(found, IsEmpty());
    EXPECT_EQ(probes->left_unseen(), 0u) << "the exception was seen";
    const auto report = probes->reports().front();
    EXPECT_EQ(report.count.left, 1u);
    EXPECT_THAT(report.reason, testing::HasSubstr("1 calls were left by an exception or longjmp: not timed"));
}

TEST_F(LatencyDeadline, AFunctionCalledTooOftenIsDetached) {
    Victim victim({"fast", "20000000"});
    auto probe = wanted("probed_fast", 50 * ms);
    probe.max_rate = 1000;
    want(probe, victim);
    victim.go();
    watch_for(2500 * ms); // far beyond: the first tick decides
    EXPECT_EQ(probes->reports().front().state, ProbeReport::State::Unavailable);
    EXPECT_THAT(probes->reports().front().reason, testing::HasSubstr("above max_rate"));
    EXPECT_EQ(victim.wait_for_line(), "fast done"); // soon: it is no longer probed
}

} // namespace
} // namespace incident::daemon
