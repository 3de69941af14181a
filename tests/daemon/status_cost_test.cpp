// What `status` says of the daemon's own cost.
#include "daemon/status.h"

#include "rules/parse.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace incident::daemon {
namespace {

constexpr std::uint64_t second = 1'000'000'000;

class StatusCost : public ::testing::Test {
protected:
    CostMeter meter;
    Governor governor{{.share = 0.01, .every_ns = 60 * second}};
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
    governor = Governor({.share = std::nullopt, .every_ns = second});
    EXPECT_TRUE(json()["budget"].is_null());
}

TEST_F(StatusCost, StepsWithSinceAndWhy) {
    measured.emplace();
    measured->t_ns = 100 * second;
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
    measured->durations = {.can_be_left_out = false, .share = 0.2, .calls_per_second = 1};
    governor.measured(*measured);
    EXPECT_EQ(
        json()["advice"],
        "recording alone takes 50 % of each CPU, over the budget of 1 %, and there is nothing left to do without: "
        "narrow the rules' match, set [record] durations = false, or raise [cost] budget");
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
