// The word for each rule: what is attached now, and nothing else, says it.
#include "daemon/record/rule_states.h"

#include "rules/files/parse.h"

#include <gtest/gtest.h>

namespace incident::daemon {
namespace {

using Families = std::map<std::string, FamilyState>;

constexpr const char *everything = R"(
[[rule]]
name = "calls"
on = "syscall"
errno = "EIO"
[[rule]]
name = "waits"
on = "blocked"
threshold = "1s"
[[rule]]
name = "hit"
on = "tracepoint"
tracepoint = "sched:sched_switch"
[[rule]]
name = "other-hit"
on = "tracepoint"
tracepoint = "sched:sched_switch"
[[rule]]
name = "crash"
on = "signal"
[[rule]]
name = "killed"
on = "exit"
signals = ["SIGKILL"]
[[rule]]
name = "failed"
on = "exit"
status = [1]
[[rule]]
name = "slow"
on = "latency"
probe = "uprobe:/bin/true:main"
threshold = "1s"
[[rule]]
name = "off"
on = "oom"
enabled = false
[[rule]]
name = "either"
on = "any"
condition = [{ on = "syscall", errno = "EIO" }, { on = "signal" }]
[[rule]]
name = "both"
on = "all"
within = "10s"
condition = [{ on = "syscall", errno = "EIO" }, { on = "signal" }]
)";

struct Moment {
    const char *when;
    Families families;
    ConditionStates conditions;
    std::map<std::string, std::string> not_active; // rule → "STATE: REASON"
};

const Families all_attached = {{"syscall", {true, ""}},
                               {"blocked", {true, ""}},
                               {"exit", {true, ""}},
                               {"tracepoint:sched:sched_switch", {true, ""}}};

Families with(const std::string &key, FamilyState state) {
    Families families = all_attached;
    families[key] = std::move(state);
    return families;
}

Families without(const std::string &key) {
    Families families = all_attached;
    families.erase(key);
    return families;
}

class RuleStates : public testing::TestWithParam<Moment> {};

TEST_P(RuleStates, SayWhatIsAttached) {
    const auto parsed = rules::parse_rules({{"test.toml", everything}}, {});
    for (const auto &diagnostic : parsed.diagnostics)
        ASSERT_NE(diagnostic.severity, rules::Severity::Error) << diagnostic.text();
    std::map<std::string, std::string> said;
    for (const auto &rule : parsed.rules) {
        const RuleState state = state_of(rule, GetParam().families, GetParam().conditions);
        if (rule.name == "off")
            EXPECT_EQ(state.state, "disabled");
        else if (state.state != "active")
            said[rule.name] = state.state + ": " + state.reason;
    }
    EXPECT_EQ(said, GetParam().not_active);
}

constexpr const char *not_attached = "its programs are not attached";

INSTANTIATE_TEST_SUITE_P(
    LifeCycle, RuleStates,
    testing::Values(Moment{"all", all_attached, {}, {}},
                    Moment{"nothing",
                           {},
                           {},
                           {{"calls", std::string("unavailable: ") + not_attached},
                            {"waits", std::string("unavailable: ") + not_attached},
                            {"hit", std::string("unavailable: ") + not_attached},
                            {"other-hit", std::string("unavailable: ") + not_attached},
                            {"failed", std::string("unavailable: ") + not_attached},
                            {"either", std::string("degraded: ") + not_attached},
                            {"both", std::string("unavailable: ") + not_attached}}},
                    // a rule named anew has no step of its own: its family is what tells
                    Moment{"renamed_while_off",
                           without("syscall"),
                           {{"old-name:0", {"unavailable", "over the cost budget"}}},
                           {{"calls", std::string("unavailable: ") + not_attached},
                            {"either", std::string("degraded: ") + not_attached},
                            {"both", std::string("unavailable: ") + not_attached}}},
                    // of a family that stays attached for others one condition is off
                    Moment{"one_off_for_cost",
                           all_attached,
                           {{"calls:0", {"unavailable", "over the cost budget: …"}}},
                           {{"calls", "unavailable: over the cost budget: …"}}},
                    Moment{"one_of_two_conditions_off",
                           all_attached,
                           {{"either:0", {"unavailable", "over the cost budget"}}, {"both:0", {"unavailable", "over"}}},
                           {{"either", "degraded: over the cost budget"}, {"both", "unavailable: over"}}},
                    Moment{"module_gone",
                           with("tracepoint:sched:sched_switch",
                                {false, "this kernel has no tracepoint sched:sched_switch now"}),
                           {},
                           {{"hit", "unavailable: this kernel has no tracepoint sched:sched_switch now"},
                            {"other-hit", "unavailable: this kernel has no tracepoint sched:sched_switch now"}}},
                    Moment{"over_max_rate",
                           all_attached,
                           {{"slow:0", {"unavailable", "detached: 9 calls/s is above max_rate = 1"}}},
                           {{"slow", "unavailable: detached: 9 calls/s is above max_rate = 1"}}},
                    Moment{"single_stepped",
                           all_attached,
                           {{"slow:0", {"degraded", "each call is single-stepped"}}},
                           {{"slow", "degraded: each call is single-stepped"}}}),
    [](const auto &test) { return test.param.when; });

} // namespace
} // namespace incident::daemon
