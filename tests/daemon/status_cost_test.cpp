// What `status` says of the daemon's own cost.
#include "daemon/service/status.h"

#include "rules/files/parse.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace incident::daemon {
namespace {

constexpr std::uint64_t cost_second = 1'000'000'000;

class StatusCost : public ::testing::Test {
protected:
    CostMeter meter;
    Governor governor{{.share = 0.01, .every_ns = 60 * cost_second}};
    std::optional<CostMeasurement> measured;
    nlohmann::ordered_json json() const { return cost_json({meter, governor, measured, 0}, 1 << 20); }
};

TEST_F(StatusCost, BeforeTheFirstMeasurement) {
    const auto said = json();
    EXPECT_EQ(said["budget"], 0.01);
    EXPECT_EQ(said["every_s"], 60);
    EXPECT_TRUE(said["measured"].is_null());
    EXPECT_EQ(said["daemon_rss_bytes"], 1 << 20);
    EXPECT_TRUE(said["steps"].empty());
    EXPECT_EQ(said["advice"], "");
}

TEST_F(StatusCost, NoBudgetIsNull) {
    governor = Governor({.share = std::nullopt, .every_ns = cost_second});
    EXPECT_TRUE(json()["budget"].is_null());
}

TEST_F(StatusCost, StepsWithSinceAndWhy) {
    measured.emplace();
    measured->t_ns = 100 * cost_second;
    measured->cpus = 4;
    measured->programs = 0.03;
    measured->daemon = 0.002;
    measured->probes = {{"latency:k", "uprobe:/bin/x:f", {"slow:0"}, true, 0.02, 10'000}};
    governor.measured(*measured);
    const auto said = json();
    EXPECT_EQ(said["measured"], "1970-01-01T00:01:40Z");
    EXPECT_DOUBLE_EQ(said["total"], 0.008);
    EXPECT_EQ(said["programs"], 0.03);
    EXPECT_EQ(said["daemon"], 0.002);
    ASSERT_EQ(said["steps"].size(), 1u);
    EXPECT_EQ(said["steps"][0]["what"], "uprobe:/bin/x:f detached");
    EXPECT_EQ(said["steps"][0]["since"], "1970-01-01T00:01:40Z");
    EXPECT_EQ(said["steps"][0]["why"], "over the cost budget: 2 % of a CPU at 10,000 calls a second, budget 1 %; "
                                       "tried again at 00:04:40Z");
}

TEST_F(StatusCost, WhatHelpsWhereNoStepIsLeft) {
    measured.emplace();
    measured->programs = 0.5;
    measured->durations = {.can_be_left_out = false, .share = 0.2};
    governor.measured(*measured);
    governor.measured(*measured);
    EXPECT_EQ(json()["advice"],
              "recording alone takes 50 % of each CPU, over the budget of 1 %, and nothing more is left out for that: "
              "narrow the rules' match, set [record] durations = false, or raise [cost] budget");
}

TEST_F(StatusCost, StrangersAreSaidWhereTheyAreMuchOfIt) {
    measured.emplace();
    measured->programs = 0.5;
    measured->strangers = {.share = 0.05, .calls_per_second = 82'000};
    governor.measured(*measured);
    governor.measured(*measured);
    EXPECT_THAT(json()["advice"].get<std::string>(),
                testing::HasSubstr("of which 5 % of a CPU go to 82,000 calls a second of processes no rule is about"));
    EXPECT_EQ(json()["strangers"]["events_per_second"], 82'000);
}

TEST_F(StatusCost, WhoCostsMostIsNamed) {
    measured.emplace();
    for (std::uint32_t pid = 1; pid < 10; ++pid)
        measured->processes.push_back({.process = {pid, {1}}, .comm = "c", .timed = pid != 1, .share = 0.1 / pid});
    const auto said = json()["costliest"];
    ASSERT_EQ(said.size(), 5u);
    EXPECT_EQ(said[0],
              (nlohmann::ordered_json{
                  {"pid", 1}, {"comm", "c"}, {"cpu_share", 0.1}, {"calls_per_second", 0}, {"durations", false}}));
    EXPECT_EQ(said[1]["durations"], true);
}

TEST_F(StatusCost, ARuleThatDoesNothingHasNoCost) {
    const auto rules =
        rules::parse_rules({{"x.toml", "[[rule]]\nname = \"a\"\non = \"syscall\"\nerrno = \"EIO\"\n"}}, {});
    ASSERT_EQ(rules.rules.size(), 1u);
    measured.emplace();
    measured->probes = {{"syscall a:0", "programs of syscall rule a", {"a:0"}, true, 0.002, 1000}};
    const auto cost = [&](const char *state) {
        return rule_cost_json(rules.rules[0], {state, ""}, {meter, governor, measured, 0});
    };
    EXPECT_TRUE(cost("unavailable").is_null());
    EXPECT_TRUE(cost("disabled").is_null());
}

// 1,000,000 runs of 100 ns in a second; of these 100,000 were for processes of rule 0 and took 300 ns more, 50,000
// for such of rules 0 and 3, which took 500 ns more.
TEST(OwnPart, WhatIsForStrangersIsNoRules) {
    const Cost all{.ns_per_run = 155, .runs_per_second = 1e6, .cpu_share = 0.155};
    const auto part = own_part("p", all,
                               {{.rules = 1, .program = "p", .runs = 100'000, .ns = 30'000'000},
                                {.rules = 9, .program = "p", .runs = 50'000, .ns = 25'000'000},
                                {.rules = 1, .program = "another", .runs = 1, .ns = 1'000'000'000}},
                               1);
    EXPECT_NEAR(part.strangers.runs_per_second, 850'000, 1);
    EXPECT_NEAR(part.strangers.cpu_share, 0.085, 1e-9);
    EXPECT_NEAR(part.by_bit[0].cpu_share, 0.04 + 0.015, 1e-9);
    EXPECT_NEAR(part.by_bit[3].cpu_share, 0.015, 1e-9);
    EXPECT_NEAR(part.by_bit[0].cpu_share + part.by_bit[3].cpu_share + part.strangers.cpu_share, all.cpu_share, 1e-9);
    EXPECT_EQ(part.by_bit[1].cpu_share, 0);
    EXPECT_EQ(own_part("p", {}, {}, 1).strangers.cpu_share, 0) << "it has not run";
}

TEST(StatusLosses, IncidentsThatFailedAreAmongThem) {
    IncidentCounters counters;
    EXPECT_TRUE(lost_incidents(counters).empty());
    counters.failed = 3;
    counters.failed_because = {{"No space left on device", 2}, {"too many were waiting to be written", 1}};
    const auto losses = lost_incidents(counters);
    ASSERT_EQ(losses.size(), 2u);
    EXPECT_EQ(losses[0].where, "incidents");
    EXPECT_EQ(losses[0].reason, "not written: No space left on device");
    EXPECT_EQ(losses[0].count, 2u);
}

TEST(StatusLineCost, SaysThatSomethingIsLeftOut) {
    const rules::Engine engine{std::vector<rules::Rule>{}};
    StatusLineInput input{.engine = engine, .families = {}, .conditions = {}};
    input.cost_steps = 2;
    EXPECT_EQ(status_line(input),
              "Recording: 0 rules active; 0 incidents; 2 left out for the cost budget: incidentctl status");
    input.cost_steps = 0;
    input.cost_beyond_steps = true;
    EXPECT_EQ(status_line(input), "Recording: 0 rules active; 0 incidents; over the cost budget");
}

} // namespace
} // namespace incident::daemon
