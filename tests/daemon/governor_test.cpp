// The cost budget: what is left out first, when it comes back, and that it does not flap.
#include "daemon/cost/governor.h"

#include <gtest/gtest.h>

namespace incident::daemon {
namespace {

using rules::Allocations;
using Kind = CostStep::Kind;
using What = Governor::Change::What;

constexpr std::uint64_t governor_second = 1'000'000'000;

// A host of 2 CPUs whose load the test sets; the budget of each is 1 %, so 2 % of one in total.
class Governed : public ::testing::Test {
protected:
    Governor governor{{.share = 0.01, .every_ns = governor_second, .over_before_a_step = 1}};
    std::uint64_t now = 1000 * governor_second;
    double rest = 0;      // what recording and the daemon take, of a CPU
    double strangers = 0; // of that
    struct Load {
        std::uint32_t pid;
        Allocations asked;
        double sizes, history; // what the levels take, or would
    };
    std::vector<Load> heaps;
    struct Probe {
        std::string key;
        double share;
    };
    std::vector<Probe> probes;
    struct Caller {
        std::uint32_t pid;
        double calls, durations; // what recording takes without durations, and what these add
        std::uint32_t user = 0;
    };
    std::vector<Caller> callers;
    bool can_leave_durations = true;

    bool in_force(Kind kind, const std::string &subject = "") const {
        for (const auto &step : governor.steps())
            if (step.kind == kind && step.subject == subject)
                return true;
        return false;
    }
    Allocations level(const Load &heap) const {
        const std::string pid = std::to_string(heap.pid);
        if (in_force(Kind::SizesToPages, pid))
            return Allocations::Pages;
        return in_force(Kind::HistoryToSizes, pid) ? std::min(heap.asked, Allocations::Sizes) : heap.asked;
    }
    CostMeasurement measurement() const {
        CostMeasurement m{.t_ns = now, .cpus = 2, .programs = rest};
        m.strangers.share = strangers;
        for (const Load &heap : heaps) {
            CostMeasurement::Heap line{.pid = heap.pid, .comm = "heap", .asked = heap.asked, .level = level(heap)};
            const bool history = line.level == Allocations::History, sizes = line.level == Allocations::Sizes;
            line.share = history ? heap.history : sizes ? heap.sizes : 0;
            line.lower_saves = history ? heap.history - heap.sizes : line.share;
            line.higher_adds = sizes && heap.asked == Allocations::History ? heap.history - heap.sizes : 0;
            m.programs += line.share;
            m.heaps.push_back(line);
        }
        m.durations.can_be_left_out = can_leave_durations;
        for (const Caller &caller : callers) {
            CostMeasurement::Process line{
                .process = {caller.pid, {1}}, .comm = "caller", .user = caller.user, .durations = caller.durations};
            line.timed = !in_force(Kind::Durations, std::to_string(caller.pid) + " 1");
            line.share = caller.calls + (line.timed ? caller.durations : 0);
            m.durations.share += line.share - caller.calls;
            m.programs += line.share;
            m.processes.push_back(line);
        }
        for (const Probe &probe : probes) {
            const bool on = !in_force(Kind::Probes, probe.key);
            m.programs += on ? probe.share : 0;
            m.probes.push_back({probe.key, probe.key, {probe.key + ":0"}, on, on ? probe.share : 0, on ? 1000.0 : 0});
        }
        return m;
    }
    std::vector<Governor::Change> measure() {
        now += governor_second;
        return governor.measured(measurement());
    }
    // "taken 07": the first digit is the kind, then comes the subject, of a process its pid
    std::vector<std::string> measured(unsigned times = 1) {
        std::vector<std::string> said;
        for (; times; --times)
            for (const auto &change : measure())
                said.push_back((change.what == What::Taken    ? "taken "
                                : change.what == What::Undone ? "undone "
                                                              : "moot ") +
                               std::to_string(static_cast<int>(change.step.kind)) +
                               change.step.subject.substr(0, change.step.subject.find(' ')));
        return said;
    }
    using Said = std::vector<std::string>;
};

TEST_F(Governed, NothingIsDoneWithinTheBudget) {
    rest = 0.0199;
    heaps = {{7, Allocations::History, 0, 0}};
    probes = {{"p", 0}};
    EXPECT_TRUE(measured(100).empty());
    EXPECT_FALSE(governor.at_the_end());
}

TEST_F(Governed, NothingIsEverDoneWithoutABudget) {
    governor = Governor({.share = std::nullopt, .every_ns = governor_second});
    rest = 2;
    probes = {{"p", 1}};
    EXPECT_TRUE(measured(10).empty());
    EXPECT_FALSE(governor.at_the_end());
}

TEST_F(Governed, TheOrderOfTheSteps) {
    rest = 1;
    heaps = {
        {7, Allocations::History, 0.1, 0.2}, {8, Allocations::History, 0.1, 0.3}, {9, Allocations::Sizes, 0.05, 0}};
    callers = {{7, 0.01, 0.002}, {20, 0.2, 0.1}, {8, 0, 0.0001}};    // 7 and 8 have a heap too
    probes = {{"cool", 0.006}, {"warm", 0.008}, {"warmer", 0.0095}}; // together over the budget of 2 CPUs
    EXPECT_EQ(measured(), Said{"taken 08"}); // the costliest process first, though its calls cost next to nothing
    EXPECT_EQ(measured(), Said{"taken 220"});
    EXPECT_EQ(measured(2), (Said{"taken 27", "taken 07"})); // of one process the durations before the heap
    EXPECT_EQ(measured(3), (Said{"taken 17", "taken 18", "taken 19"}));
    EXPECT_EQ(measured(), Said{"taken 3warmer"});
    EXPECT_FALSE(governor.at_the_end());
    EXPECT_TRUE(measured().empty()) << "the others are within the budget";
    EXPECT_TRUE(governor.at_the_end()) << "recording alone is too much, and that is said";
    rest = 0.005;
    for (Caller &caller : callers)
        caller.calls = 0;
    measured();
    EXPECT_FALSE(governor.at_the_end());
}

TEST_F(Governed, NoRuleIsOffForWhatOthersTake) {
    rest = 1; // recording, and rules' programs that run for strangers: however much
    strangers = 0.9;
    probes = {{"narrow", 0.0099}, {"other", 0.004}};
    EXPECT_TRUE(measured(100).empty());
    EXPECT_TRUE(governor.at_the_end()) << "and that is said";
}

TEST_F(Governed, AHotRuleComesBackThoughOthersStillTakeTooMuch) {
    rest = 1;
    probes = {{"hot", 0.5}};
    EXPECT_EQ(measured(), Said{"taken 3hot"});
    probes[0].share = 0.001;
    EXPECT_EQ(measured(5), Said{"undone 3hot"});
}

TEST_F(Governed, AReloadForgetsWhatIsAnotherThingNow) {
    probes = {{"a", 0.5}, {"b", 0.5}};
    for (int i = 0; i < 2000; ++i) // until the waits are long
        measured();
    ASSERT_TRUE(in_force(Kind::Probes, "a") && in_force(Kind::Probes, "b"));
    governor.forget([](const CostStep &step) { return step.subject == "a"; });
    EXPECT_FALSE(in_force(Kind::Probes, "a"));
    EXPECT_TRUE(in_force(Kind::Probes, "b"));
    const auto changes = measure();
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_EQ(changes[0].step.retry_ns - changes[0].step.since_ns, Governor::calm_measurements * governor_second)
        << "as if for the first time";
}

TEST_F(Governed, OneStepAMeasurementAndNoMoreThanNeeded) {
    heaps = {{7, Allocations::History, 0.001, 0.03}, {8, Allocations::History, 0.001, 0.004}};
    EXPECT_EQ(measured(), Said{"taken 07"});
    EXPECT_TRUE(measured().empty());
    EXPECT_EQ(level(heaps[1]), Allocations::History);
}

TEST_F(Governed, AHistoryThatSavesNothingItselfIsOnTheWayToPages) {
    heaps = {{7, Allocations::History, 0.5, 0.5}};
    EXPECT_EQ(measured(2), (Said{"taken 07", "taken 17"}));
}

TEST_F(Governed, WhatTakesNextToNothingIsPassedOver) {
    rest = 0.03;
    heaps = {{7, Allocations::History, 0, 0.0005}};
    callers = {{8, 0, 0.0005}};
    probes = {{"p", 0.0005}};
    EXPECT_TRUE(measured(5).empty());
    EXPECT_TRUE(governor.at_the_end());
}

TEST_F(Governed, DurationsStayWhereARuleNeedsThem) {
    rest = 0.02;
    callers = {{8, 0, 0.01}};
    can_leave_durations = false;
    EXPECT_TRUE(measured(5).empty());
    EXPECT_TRUE(governor.at_the_end());
}

TEST_F(Governed, ABusySecondIsNotEnough) {
    governor = Governor({.share = 0.01, .every_ns = governor_second});
    const auto busy = [&] {
        callers = {{7, 0.05, 0.05}};
        heaps = {{7, Allocations::History, 0.01, 0.05}};
    };
    for (int i = 0; i < 10; ++i) {
        busy();
        EXPECT_TRUE(measured().empty());
        EXPECT_TRUE(governor.is_unsettled()) << "it is measured again soon";
        EXPECT_FALSE(governor.at_the_end());
        callers = {{7, 0.001, 0.001}};
        heaps = {{7, Allocations::History, 0.001, 0.002}};
        EXPECT_TRUE(measured().empty());
        EXPECT_FALSE(governor.is_unsettled());
    }
    busy();
    EXPECT_EQ(measured(3), (Said{"taken 27", "taken 07"})) << "once it is sure, each takes a step";
}

// Attached, and within the budget each.
TEST_F(Governed, ABusySecondTurnsNoRuleOff) {
    governor = Governor({.share = 0.01, .every_ns = governor_second});
    for (int i = 0; i < 10; ++i) {
        callers = {{7, 0.03, 0.03}};
        probes = {{"a", 0.008}, {"b", 0.008}, {"c", 0.006}};
        EXPECT_TRUE(measured().empty());
        callers = {{7, 0, 0}};
        probes[0].share = 0.001;
        EXPECT_TRUE(measured().empty());
    }
    callers = {{7, 0.03, 0.03}};
    probes[0].share = 0.008;
    EXPECT_EQ(measured(3), (Said{"taken 27", "taken 3a"})) << "rules go last";
}

TEST_F(Governed, OneBusyProcessTakesNothingFromOthers) {
    callers = {{7, 0.001, 0.001}, {666, 0.5, 0.5}, {8, 0.0005, 0.0005}};
    for (std::uint32_t pid = 30; pid < 50; ++pid) // together half of the budget
        callers.push_back({pid, 0.0001, 0.0004});
    heaps = {{8, Allocations::History, 0.001, 0.002}};
    EXPECT_EQ(measured(), Said{"taken 2666"});
    EXPECT_TRUE(governor.is_unsettled());
    EXPECT_TRUE(measured(100).empty());
    EXPECT_TRUE(governor.at_the_end()) << "what is left is its calls, and that is said";
    EXPECT_FALSE(governor.is_unsettled());
}

// However long the total has been over: that was another's fault.
TEST_F(Governed, ABusySecondBesideABusyProcessIsNotEnoughEither) {
    governor = Governor({.share = 0.01, .every_ns = governor_second});
    callers = {{666, 0.5, 0.5}, {7, 0.001, 0.001}};
    EXPECT_EQ(measured(10), Said{"taken 2666"});
    callers[1] = {7, 0.05, 0.05};
    EXPECT_TRUE(measured().empty());
    EXPECT_FALSE(governor.at_the_end()) << "it is not sure yet";
    callers[1] = {7, 0.001, 0.001};
    EXPECT_TRUE(measured(10).empty());
    callers[1] = {7, 0.05, 0.05};
    EXPECT_EQ(measured(2), Said{"taken 27"});
}

TEST_F(Governed, NobodysManyProcessesMakeAnothersPartSmall) {
    callers = {{7, 0.002, 0.003, 1}};
    for (std::uint32_t pid = 1000; pid < 1200; ++pid)
        callers.push_back({pid, 0.0001, 0.0003, 2});
    for (const auto &one : measured(100))
        EXPECT_NE(one, "taken 27");
    EXPECT_FALSE(in_force(Kind::Durations, "7 1"));
    EXPECT_TRUE(in_force(Kind::Durations, "1000 1")) << "those of the user who takes more than her part";
}

TEST_F(Governed, ManyEqualOnesAreAllTheCause) {
    for (std::uint32_t pid = 30; pid < 70; ++pid)
        callers.push_back({pid, 0.0003, 0.0004});
    const auto said = measured(100);
    EXPECT_GE(said.size(), 20u) << "until it fits";
    EXPECT_LE(said.size(), 22u);
}

TEST_F(Governed, ItsDurationsComeBackWhenItIsIdleThoughOthersStillTakeTooMuch) {
    callers = {{7, 0.01, 0.01}, {8, 0.1, 0.1}};
    EXPECT_EQ(measured(2), (Said{"taken 28", "taken 27"}));
    EXPECT_TRUE(measured(10).empty());
    callers[0] = {7, 0, 0.0004};
    EXPECT_EQ(measured(10), Said{"undone 27"});
    EXPECT_TRUE(measured(100).empty());
}

TEST_F(Governed, ItsHistoryComesBackThoughAnotherHasBecomeTooMuch) {
    heaps = {{7, Allocations::History, 0.001, 0.05}};
    EXPECT_EQ(measured(), Said{"taken 07"});
    callers = {{8, 0.1, 0.1}};
    EXPECT_EQ(measured(), Said{"taken 28"});
    EXPECT_TRUE(measured(10).empty());
    heaps[0] = {7, Allocations::History, 0.0005, 0.002};
    EXPECT_EQ(measured(10), Said{"undone 07"});
}

TEST_F(Governed, BusyProcessesThatComeAndGoAreNotFollowedForEver) {
    unsigned soon = 0;
    for (std::uint32_t pid = 100; pid < 400; ++pid) {
        callers = {{pid, 0.1, 0.1}, {pid + 1, 0.1, 0.1}};
        measured();
        soon += governor.is_unsettled();
    }
    EXPECT_LE(soon, Governor::soon_at_most);
    EXPECT_LE(governor.steps().size(), 2u);
}

TEST_F(Governed, NobodyPaysForWhatNoProcessTakes) {
    rest = 1; // programs that run for processes no rule is about
    callers = {{7, 0.004, 0.004}, {8, 0.004, 0.004}};
    EXPECT_TRUE(measured(10).empty()) << "together they are within the budget";
    EXPECT_TRUE(governor.at_the_end());
}

TEST_F(Governed, ANameIsHarmless) {
    callers = {{7, 0.1, 0.1}};
    now += governor_second;
    CostMeasurement busy = measurement();
    busy.processes[0].comm = "a\n\33[2J";
    const auto changes = governor.measured(busy);
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_EQ(changes[0].step.name, "pid 7 (a\\n\\33[2J)");
}

TEST_F(Governed, AnotherProcessWithItsPidIsAnotherProcess) {
    callers = {{7, 0.1, 0.1}};
    measured();
    CostMeasurement later = measurement();
    later.processes[0].process.start = {2};
    later.processes[0].timed = true;
    const auto changes = governor.measured(later);
    ASSERT_EQ(changes.size(), 2u);
    EXPECT_EQ(changes[0].what, What::Moot);
    EXPECT_EQ(changes[1].what, What::Taken);
    EXPECT_EQ(changes[1].step.process.start.ns, 2u);
}

TEST_F(Governed, AProbeThatIsTooMuchByItselfGoesAtOnceThoughTheTotalIsNot) {
    probes = {{"hot", 0.012}, {"cool", 0.004}, {"hotter", 0.0101}};
    const auto changes = measure();
    ASSERT_EQ(changes.size(), 2u);
    EXPECT_TRUE(changes[0].step.by_itself && changes[1].step.by_itself);
    EXPECT_EQ(changes[0].step.subject, "hot");
    EXPECT_EQ(changes[1].step.subject, "hotter");
    EXPECT_EQ(changes[0].step.conditions, std::vector<std::string>{"hot:0"});
}

TEST_F(Governed, WhatAHotProbeSavesIsNotSavedTwice) {
    rest = 0.015;
    heaps = {{7, Allocations::History, 0, 0.003}};
    probes = {{"hot", 0.02}};
    EXPECT_EQ(measured(), Said{"taken 3hot"}) << "without it the total is within the budget";
}

TEST_F(Governed, TheLastStepIsUndoneFirst) {
    heaps = {{7, Allocations::History, 0.03, 0.06}};
    EXPECT_EQ(measured(2), (Said{"taken 07", "taken 17"}));
    heaps[0].sizes = 0.002, heaps[0].history = 0.004;
    const auto said = measured(20);
    EXPECT_EQ(said, (Said{"undone 17", "undone 07"}));
    EXPECT_TRUE(governor.steps().empty());
}

TEST_F(Governed, ItTakesSeveralCalmMeasurementsInARow) {
    heaps = {{7, Allocations::History, 0.001, 0.03}};
    EXPECT_EQ(measured(), Said{"taken 07"});
    heaps[0].history = 0.002;
    for (int i = 0; i < 10; ++i) { // every third is not calm
        heaps[0].history = 0.002;
        EXPECT_TRUE(measured(2).empty());
        heaps[0].history = 0.018; // within the budget, above 70 % of it
        EXPECT_TRUE(measured().empty());
    }
    heaps[0].history = 0.002;
    EXPECT_TRUE(measured(2).empty());
    EXPECT_EQ(measured(), Said{"undone 07"});
}

TEST_F(Governed, ASteadyLoadDoesNotFlap) {
    heaps = {{7, Allocations::History, 0.005, 0.025}};
    EXPECT_EQ(measured(), Said{"taken 07"});
    EXPECT_TRUE(measured(10'000).empty()) << "undone it would be too much again, and that is known";
}

TEST_F(Governed, ALoadBetweenCalmAndTheBudgetStaysAsItIs) {
    heaps = {{7, Allocations::History, 0.005, 0.025}};
    measured();
    heaps[0].history = 0.016; // would fit, with less than 30 % to spare
    EXPECT_TRUE(measured(1000).empty());
    heaps[0].history = 0.013;
    EXPECT_EQ(measured(10), Said{"undone 07"});
}

TEST_F(Governed, AProbeThatStaysHotIsTriedMoreAndMoreRarely) {
    probes = {{"hot", 0.5}};
    std::vector<std::uint64_t> taken;
    for (unsigned i = 0; i < 8 * 3600; ++i)
        for (const auto &change : measure())
            if (change.what == What::Taken)
                taken.push_back(change.step.since_ns);
    ASSERT_GE(taken.size(), 12u);
    ASSERT_LE(taken.size(), 20u) << "8 hours of measurements";
    for (std::size_t i = 2; i < taken.size(); ++i)
        EXPECT_GE(taken[i] - taken[i - 1], taken[i - 1] - taken[i - 2]);
    EXPECT_GE(taken.back() - taken[taken.size() - 2], Governor::longest_wait_ns);
    EXPECT_LE(taken.back() - taken[taken.size() - 2], Governor::longest_wait_ns + 10 * governor_second);
}

TEST_F(Governed, AProbeComesBackWhenItsLoadHasEnded) {
    probes = {{"hot", 0.5}};
    measured();
    probes[0].share = 0.001;
    EXPECT_EQ(measured(5), Said{"undone 3hot"});
    EXPECT_TRUE(measured(1000).empty());
    probes[0].share = 0.5; // long after: as if for the first time
    const auto changes = measure();
    ASSERT_EQ(changes.size(), 1u);
    EXPECT_EQ(changes[0].step.retry_ns - changes[0].step.since_ns, Governor::calm_measurements * governor_second);
}

TEST_F(Governed, AHotProbeThatWaitsDoesNotHoldUpTheOthers) {
    probes = {{"hot", 0.5}};
    for (int i = 0; i < 2000; ++i) // until its wait is long
        measured();
    heaps = {{7, Allocations::History, 0.001, 0.03}};
    Said said = measured(2);
    EXPECT_TRUE(in_force(Kind::HistoryToSizes, "7"));
    heaps[0].history = 0.002;
    said = measured(10);
    EXPECT_FALSE(in_force(Kind::HistoryToSizes, "7"));
}

TEST_F(Governed, StepsAboutWhatIsGoneAreForgotten) {
    rest = 1;
    heaps = {{7, Allocations::History, 0.1, 0.2}};
    callers = {{8, 0, 0.05}};
    probes = {{"p", 0.5}};
    measured(5);
    ASSERT_EQ(governor.steps().size(), 4u);
    heaps.clear(); // the process has ended, the rules are others
    probes.clear();
    can_leave_durations = false;
    const auto said = measured();
    EXPECT_EQ(said.size(), 4u);
    for (const auto &one : said)
        EXPECT_EQ(one.substr(0, 5), "moot ");
    EXPECT_TRUE(governor.steps().empty());
}

TEST(GovernorText, Steps) {
    CostStep step{.kind = Kind::Probes, .name = "uprobe:/bin/x:f", .by_itself = true};
    step.share = 0.032;
    step.calls_per_second = 41'000;
    step.retry_ns = 5 * governor_second;
    const std::int64_t offset = (3 * 3600 + 14 * 60) * static_cast<std::int64_t>(governor_second);
    EXPECT_EQ(step_text(step), "uprobe:/bin/x:f detached");
    EXPECT_EQ(step_reason(step, 0.01, offset), "over the cost budget: 3.2 % of a CPU at 41,000 calls a second, "
                                               "budget 1 %; tried again at 03:14:05Z");
    step.by_itself = false;
    step.total = 0.0205;
    EXPECT_EQ(
        step_reason(step, 0.0005, offset),
        "over the cost budget: 2.1 % of each CPU by rules' probes, this saves up to 3.2 % of a CPU at 41,000 calls a "
        "second, budget 0.05 %; tried again when there is room, not before 03:14:05Z");
    step.kind = Kind::HistoryToSizes;
    EXPECT_EQ(step_reason(step, 0.0005, offset),
              "over the cost budget: 2.1 % of each CPU in total, this saves up to 3.2 % "
              "of a CPU at 41,000 calls a second, "
              "budget 0.05 %; tried again when there is room, not before 03:14:05Z");
    step.name = "pid 7 (server)";
    EXPECT_EQ(step_text(step), "the heap of pid 7 (server) is recorded at level \"sizes\", without history");
    step.kind = Kind::SizesToPages;
    EXPECT_EQ(step_text(step), "allocations of pid 7 (server) are not recorded");
    step.kind = Kind::Durations;
    EXPECT_EQ(step_text(step), "durations of system calls of pid 7 (server) are not measured");
}

TEST(GovernorText, Percents) {
    EXPECT_EQ(percent_text(0), "0 %");
    EXPECT_EQ(percent_text(0.0005), "0.05 %");
    EXPECT_EQ(percent_text(0.01), "1 %");
    EXPECT_EQ(percent_text(0.032), "3.2 %");
    EXPECT_EQ(percent_text(1), "100 %");
    EXPECT_EQ(percent_text(12.34), "1,234 %"); // of one CPU
}

} // namespace
} // namespace incident::daemon
