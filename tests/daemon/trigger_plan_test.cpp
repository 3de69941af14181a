// What the kernel side is told of the rules: never less than a rule wants.
#include "daemon/plan/trigger_plan.h"

#include "capture/decode/syscalls.h"
#include "daemon/watch/blocked/blocked_watch.h"
#include "rules/files/parse.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fmt/format.h>

namespace incident::daemon {
namespace {

std::vector<rules::Rule> parsed_rules(const std::string &text) {
    auto result = rules::parse_rules({{"test.toml", text}}, {});
    for (const auto &diagnostic : result.diagnostics)
        ADD_FAILURE() << diagnostic.text();
    return std::move(result.rules);
}

std::string rule(const std::string &name, const std::string &rest) {
    return fmt::format("[[rule]]\nname = \"{}\"\n{}\n", name, rest);
}

std::uint64_t calls_about(const TriggerPlan &plan, const std::string &name) {
    for (int nr = 0; nr < SYSCALL_CLASSES; ++nr)
        if (capture::syscall_name(nr, false) == name)
            return plan.syscalls_of[0][nr];
    return 0;
}

TEST(TriggerPlan, SignalsNeedNoBit) {
    const auto plan = plan_triggers(parsed_rules(rule("crash", "on = \"signal\"")), true);
    EXPECT_FALSE(plan.any());
    EXPECT_FALSE(plan.ask_rules);
}

TEST(TriggerPlan, SignalsThatDoNotKillAreLookedAtOfTheRulesProcessesAlone) {
    const auto rules = parsed_rules(rule("winch", "on = \"signal\"\nsignals = [\"SIGWINCH\"]\nfatal = false\n"
                                                  "match = { comm = \"a*\" }"));
    const auto plan = plan_triggers(rules, false);
    EXPECT_EQ(plan.signal, 1u);
    EXPECT_TRUE(plan.ask_rules);
    EXPECT_EQ(rules_of(plan, rules, {.pid = 1, .comm = "ab"}), 1u);
    EXPECT_EQ(rules_of(plan, rules, {.pid = 1, .comm = "b"}), 0u);
}

TEST(TriggerPlan, PayloadIsKeptOfTheProcessesOfWhoAsksAlone) {
    const auto rules =
        parsed_rules(rule("a", "on = \"signal\"\nmatch = { exe = [\"/a\"] }\ncontext = { payload = 20 }") +
                     rule("b", "on = \"signal\"\nmatch = { exe = [\"/b\"] }\ncontext = { payload = 100 }") +
                     rule("c", "on = \"signal\"\nmatch = { exe = [\"/c\"] }"));
    const auto plan = plan_triggers(rules, true);
    EXPECT_EQ(plan.payload_bytes, 100u);
    EXPECT_TRUE(plan.ask_rules);
    EXPECT_NE(rules_of(plan, rules, {.pid = 1, .exe = "/a"}) & plan.payload, 0u);
    EXPECT_NE(rules_of(plan, rules, {.pid = 1, .exe = "/b"}) & plan.payload, 0u);
    EXPECT_EQ(rules_of(plan, rules, {.pid = 1, .exe = "/c"}) & plan.payload, 0u);
    EXPECT_EQ(plan_triggers(parsed_rules(rule("c", "on = \"signal\"")), true).payload, 0u);
}

TEST(TriggerPlan, ARuleThatAsksForHeapsIsToldOfItsProcesses) {
    const auto plan = plan_triggers(
        parsed_rules(
            rule("crash", "on = \"signal\"\nmatch = { exe = [\"/a\"] }\ncontext = { allocations = \"sizes\" }") +
            rule("other", "on = \"signal\"\nmatch = { exe = [\"/b\"] }")),
        true);
    EXPECT_NE(plan.heap, 0u);
    EXPECT_EQ(plan.told(), plan.heap);
    EXPECT_TRUE(plan.ask_rules);
}

TEST(TriggerPlan, ASyscallConditionSaysWhichCallsAndErrors) {
    const auto plan = plan_triggers(
        parsed_rules(rule("a", "on = \"syscall\"\nsyscall = \"openat\"\nerrno = [\"ENOENT\", \"EHWPOISON\"]")), false);
    EXPECT_EQ(plan.syscall, 1u);
    EXPECT_EQ(calls_about(plan, "openat"), 1u);
    EXPECT_EQ(calls_about(plan, "close"), 0u);
    const auto &settings = plan.settings[0];
    EXPECT_EQ(settings.errnos[ENOENT / 64], 1ull << ENOENT % 64);
    EXPECT_EQ(settings.errnos[EHWPOISON / 64], 1ull << EHWPOISON % 64);
    EXPECT_TRUE(settings.failed);
    EXPECT_TRUE(settings.each) << "one match is a firing";
}

TEST(TriggerPlan, WhatIsCountedIsNotCapturedAtEachMatch) {
    const auto plan =
        plan_triggers(parsed_rules(rule("a", "on = \"syscall\"\nerrno = \"any\"\ncount = 5\nwindow = \"1s\"")), false);
    EXPECT_FALSE(plan.settings[0].each);
}

TEST(TriggerPlan, AProcessHasTheBitsOfTheRulesAboutIt) {
    const auto rules = parsed_rules(rule("a", "on = \"exit\"\nmatch = { comm = \"a*\" }") + rule("b", "on = \"exit\"") +
                                    rule("c", "on = \"exit\"\nmatch = { comm = \"c\" }"));
    const auto plan = plan_triggers(rules, false);
    EXPECT_TRUE(plan.ask_rules);
    rules::ProcessFacts process;
    process.comm = "abc";
    EXPECT_EQ(rules_of(plan, rules, process), 0b011u);
    EXPECT_EQ(plan.rules_of_all, 0b010u);
}

TEST(TriggerPlan, TheKernelDumpsOnlyWhereOneMatchIsTheWholeRule) {
    const std::string slow = "on = \"syscall\"\nslower_than = \"1s\"\ndump = \"SIGABRT\"\n";
    const auto one = parsed_rules(rule("a", slow));
    EXPECT_EQ(plan_triggers(one, true).settings[0].dump_signal, static_cast<__u32>(SIGABRT));
    EXPECT_EQ(plan_triggers(one, false).settings[0].dump_signal, 0u) << "[safety] allow_dump";
    EXPECT_EQ(plan_triggers(one, true).dumping(), 1u);
    EXPECT_EQ(plan_triggers(one, false).dumping(), 0u);
    EXPECT_EQ(
        plan_triggers(parsed_rules(rule("a", slow + "limit = { cooldown = \"1h\" }")), true).settings[0].dump_signal,
        0u);
    EXPECT_EQ(plan_triggers(parsed_rules(rule("a", slow + "limit = { per_hour = 5 }")), true).settings[0].dump_signal,
              0u);
    EXPECT_EQ(plan_triggers(parsed_rules(rule("a", slow + "count = 2\nwindow = \"1s\"")), true).settings[0].dump_signal,
              0u);
}

TEST(TriggerPlan, BeyondItsBitsConditionsShareTheLastAndItsLoosestTest) {
    std::string text;
    for (int i = 0; i < RULE_BITS - 1; ++i)
        text += rule(fmt::format("x{}", i), "on = \"exit\"");
    text += rule("strict", "on = \"syscall\"\nsyscall = \"openat\"\nslower_than = \"5s\"\nerrno = \"EIO\"");
    text += rule("loose", "on = \"syscall\"\nsyscall = \"read\"\nslower_than = \"1s\"");
    const auto plan = plan_triggers(parsed_rules(text), false);
    const auto &last = plan.settings[RULE_BITS - 1];
    EXPECT_EQ(last.slower_than_ns, 1'000'000'000u);
    EXPECT_FALSE(last.failed);
    EXPECT_EQ(last.errnos[0] | last.errnos[1] | last.errnos[2], 0u);
    EXPECT_EQ(calls_about(plan, "openat"), 1ull << 63);
    EXPECT_EQ(calls_about(plan, "read"), 1ull << 63);
}

TEST(TriggerPlan, WhichRulesNeedDurations) {
    const auto durations = [](const std::string &what) {
        return plan_triggers(parsed_rules(rule("a", what)), false).durations;
    };
    EXPECT_FALSE(durations("on = \"syscall\"\nerrno = \"EIO\""));
    EXPECT_FALSE(durations("on = \"exit\""));
    EXPECT_TRUE(durations("on = \"syscall\"\nslower_than = \"1s\""));
    EXPECT_TRUE(durations("on = \"blocked\"\nthreshold = \"5s\""));
}

TEST(TriggerPlan, DeadlinesOfWaits) {
    const auto plan =
        plan_triggers(parsed_rules(rule("a", "on = \"blocked\"\nthreshold = \"5s\"\nwhen = \"deadline\"") +
                                   rule("b", "on = \"blocked\"\nthreshold = \"1s\"\nwhen = \"deadline\"\nidle = true") +
                                   rule("c", "on = \"blocked\"\nthreshold = \"100ms\"") +
                                   rule("d", "on = \"blocked\"\nthreshold = \"5s\"\nwhen = \"deadline\"")),
                      false);
    EXPECT_EQ(plan.blocked_deadlines, (std::vector<std::uint64_t>{1'000'000'000, 5'000'000'000}));
    EXPECT_EQ(plan.blocked_min_ns, 100'000'000u);
    EXPECT_TRUE(plan.blocked_idle);
}

TEST(NextLook, IsNeverLaterThanATenthAfterWhatIsDue) {
    constexpr std::uint64_t second = 1'000'000'000, now = 100 * second;
    EXPECT_LE(next_look(now, now + second / 2, second), now + second / 2 + second / 10);
    EXPECT_GT(next_look(now, now + second / 2, second), now + second / 2);
    // nothing is there: what begins now is due in a threshold's time
    EXPECT_LE(next_look(now, ~0ull, second), now + second + second / 10);
    EXPECT_GT(next_look(now, ~0ull, second), now + second);
    EXPECT_GT(next_look(now, now - second, second), now) << "overdue: soon, not in the past";
}

} // namespace
} // namespace incident::daemon
