// Each kind of condition with single events: what matches, and the reason given if it does not.

#include "rules/conditions/kinds.h"
#include "tests/rules/events.h"

#include <gmock/gmock.h>

#include <cstring>

namespace incident::rules {
namespace {

struct KindCase {
    const char *name;
    const char *kind;
    std::string lines;
    EventKind what;
    std::string why; // "" : fires
};

class Kinds : public testing::TestWithParam<KindCase> {};

TEST_P(Kinds, DecideAndSayWhy) {
    const KindCase &c = GetParam();
    Engine engine = engine_of(rule_on(c.kind, c.lines));
    const auto decisions = engine.decide(event(second, c.what));
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_EQ(decisions[0].why, c.why);
    EXPECT_EQ(decisions[0].outcome, c.why.empty() ? Outcome::Fire : Outcome::NoMatch);
    Engine quiet = engine_of(rule_on(c.kind, c.lines));
    EXPECT_EQ(quiet.decide(event(second, c.what), Answers::Firings).size(), c.why.empty() ? 1u : 0u);
}

const std::string slow_f = "probe = \"uprobe:/a:f\"\nthreshold = \"1s\"";
const std::string slow_f_deadline = slow_f + "\nwhen = \"deadline\"";

LatencyEvent call(std::uint64_t elapsed, bool in_flight = false) {
    return {.rule = "r", .elapsed_ns = elapsed, .in_flight = in_flight};
}

// A sched_switch record.
std::vector<std::uint8_t> switched(const std::string &comm, std::int64_t state) {
    std::vector<std::uint8_t> record(64);
    std::memcpy(record.data() + 8, comm.data(), comm.size());
    std::memcpy(record.data() + 32, &state, sizeof state);
    return record;
}

const std::string switch_filter = "tracepoint = \"sched:sched_switch\"\nfilter = \"prev_state == 2\"";

INSTANTIATE_TEST_SUITE_P(
    Latency, Kinds,
    testing::Values(KindCase{"at_threshold", "latency", slow_f, call(1 * second), ""},
                    KindCase{"below", "latency", slow_f, call(1 * second - 1), "threshold: took 999ms, less than 1s"},
                    KindCase{"return_in_flight", "latency", slow_f, call(2 * second, true), "when: it is not over yet"},
                    KindCase{"deadline_in_flight", "latency", slow_f_deadline, call(1 * second, true), ""},
                    KindCase{"deadline_over_already", "latency", slow_f_deadline, call(1 * second), ""},
                    KindCase{"deadline_below", "latency", slow_f_deadline, call(5 * ms, true),
                             "threshold: took 5ms, less than 1s"},
                    KindCase{"other_condition", "latency", slow_f,
                             LatencyEvent{.rule = "r", .condition = 1, .elapsed_ns = 9 * second},
                             "on: this is the probe of rule 'r', condition 2"}),
    [](const auto &test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Host, Kinds,
    testing::Values(
        KindCase{"oom_any", "oom", "", OomEvent{true}, ""},
        KindCase{"oom_cgroup", "oom", "scope = \"cgroup\"", OomEvent{true}, ""},
        KindCase{"oom_not_cgroup", "oom", "scope = \"cgroup\"", OomEvent{false}, "scope: the host ran out of memory"},
        KindCase{"oom_not_host", "oom", "scope = \"host\"", OomEvent{true}, "scope: a cgroup ran out of memory"},
        KindCase{"reclaim_long", "reclaim", "slower_than = \"10ms\"", ReclaimEvent{.stalled_ns = 10 * ms}, ""},
        KindCase{"reclaim_short", "reclaim", "slower_than = \"10ms\"", ReclaimEvent{.stalled_ns = 9 * ms},
                 "slower_than: took 9ms, less than 10ms"},
        KindCase{"reclaim_direct", "reclaim", "slower_than = \"1ms\"\nreclaim = \"direct\"",
                 ReclaimEvent{.cgroup = true, .stalled_ns = second}, "reclaim: this is cgroup reclaim"},
        KindCase{"reclaim_cgroup", "reclaim", "slower_than = \"1ms\"\nreclaim = \"cgroup\"",
                 ReclaimEvent{.stalled_ns = second}, "reclaim: this is direct reclaim"},
        KindCase{"txg", "txg_sync", "threshold = \"5s\"", TxgEvent{"tank", 5 * second, true}, ""},
        KindCase{"txg_pool", "txg_sync", "threshold = \"5s\"\npool = [\"r*\", \"t*\"]", TxgEvent{"tank", 5 * second},
                 ""},
        KindCase{"txg_other_pool", "txg_sync", "threshold = \"5s\"\npool = \"r*\"", TxgEvent{"tank", 5 * second},
                 "pool: 'tank' is none of ['r*']"},
        KindCase{"txg_short", "txg_sync", "threshold = \"5s\"", TxgEvent{"tank", second},
                 "threshold: took 1s, less than 5s"},
        KindCase{"txg_return", "txg_sync", "threshold = \"5s\"\nwhen = \"return\"", TxgEvent{"tank", 6 * second, true},
                 "when: it is not over yet"},
        KindCase{"io_slow", "block_io", "slower_than = \"1s\"", BlockIoEvent{"sda", second}, ""},
        KindCase{"io_fast", "block_io", "slower_than = \"1s\"", BlockIoEvent{"sda", 900'000},
                 "slower_than: took 900us, less than 1s"},
        KindCase{"io_error", "block_io", "error = true", BlockIoEvent{"sda", 1, 5}, ""},
        KindCase{"io_no_error", "block_io", "error = true", BlockIoEvent{"sda", 1}, "error: the request succeeded"},
        KindCase{"io_slow_error_is_either", "block_io", "error = true\nslower_than = \"1s\"", BlockIoEvent{"sda", 1, 5},
                 ""},
        KindCase{"io_slow_no_error_is_either", "block_io", "error = true\nslower_than = \"1s\"",
                 BlockIoEvent{"sda", 2 * second}, ""},
        KindCase{"io_device", "block_io", "slower_than = \"1s\"\ndevice = [\"nvme*\", \"sd?\"]",
                 BlockIoEvent{"sda", second}, ""},
        KindCase{"io_other_device", "block_io", "slower_than = \"1s\"\ndevice = \"nvme*\"", BlockIoEvent{"sda", second},
                 "device: 'sda' is none of ['nvme*']"},
        KindCase{"io_read_only", "block_io", "slower_than = \"1s\"\nio = \"read\"",
                 BlockIoEvent{.device = "sda", .duration_ns = second, .write = true}, "io: this was a write"},
        KindCase{"io_write_only", "block_io", "slower_than = \"1s\"\nio = \"write\"",
                 BlockIoEvent{.device = "sda", .duration_ns = second}, "io: this was a read"}),
    [](const auto &test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Process, Kinds,
    testing::Values(
        KindCase{"call_by_name", "syscall", "syscall = \"fsync\"", SyscallEvent{"fsync"}, ""},
        KindCase{"call_by_group", "syscall", "syscall = \"@sync\"", SyscallEvent{"fdatasync"}, ""},
        KindCase{"call_other", "syscall", "syscall = [\"fsync\", \"sync\"]", SyscallEvent{"read"},
                 "syscall: 'read' is none of ['fsync', 'sync']"},
        KindCase{"call_any_error", "syscall", "errno = \"any\"", SyscallEvent{"open", -2}, ""},
        KindCase{"call_no_error", "syscall", "errno = \"any\"", SyscallEvent{"open", 3}, "errno: the call succeeded"},
        KindCase{"call_address_is_no_error", "syscall", "errno = \"any\"", SyscallEvent{"mmap", -4096},
                 "errno: the call succeeded"},
        KindCase{"call_error", "syscall", "errno = [\"EMFILE\", \"ENOENT\"]", SyscallEvent{"open", -2}, ""},
        KindCase{"call_other_error", "syscall", "errno = [\"EMFILE\", \"ENFILE\"]", SyscallEvent{"open", -2},
                 "errno: ENOENT is none of [EMFILE, ENFILE]"},
        KindCase{"call_unnamed_error", "syscall", "errno = \"EMFILE\"", SyscallEvent{"open", -512},
                 "errno: 512 is none of [EMFILE]"},
        KindCase{"call_slow", "syscall", "slower_than = \"100us\"", SyscallEvent{"open", 0, 100'000}, ""},
        KindCase{"call_fast", "syscall", "slower_than = \"100us\"", SyscallEvent{"open", 0, 99'000},
                 "slower_than: took 99us, less than 100us"},
        KindCase{"call_error_and_slow", "syscall", "errno = \"any\"\nslower_than = \"1s\"", SyscallEvent{"open", -2, 5},
                 "slower_than: took 0s, less than 1s"},
        KindCase{"blocked", "blocked", "threshold = \"1s\"", BlockedEvent{second}, ""},
        KindCase{"blocked_short", "blocked", "threshold = \"1s\"", BlockedEvent{second / 2},
                 "threshold: took 500ms, less than 1s"},
        KindCase{"blocked_idle", "blocked", "threshold = \"1s\"", BlockedEvent{.blocked_ns = 2 * second, .idle = true},
                 "idle: it waited for something to do"},
        KindCase{"blocked_idle_too", "blocked", "threshold = \"1s\"\nidle = true",
                 BlockedEvent{.blocked_ns = 2 * second, .idle = true}, ""},
        KindCase{"blocked_still", "blocked", "threshold = \"1s\"",
                 BlockedEvent{.blocked_ns = 2 * second, .in_flight = true}, "when: it is not over yet"},
        KindCase{"exit_failure", "exit", "", ExitEvent{1}, ""},
        KindCase{"exit_success", "exit", "", ExitEvent{0}, "status: it exited with 0"},
        KindCase{"exit_listed", "exit", "status = [0, \"3-7\"]", ExitEvent{7}, ""},
        KindCase{"exit_zero_listed", "exit", "status = [0, \"3-7\"]", ExitEvent{0}, ""},
        KindCase{"exit_not_listed", "exit", "status = [0, \"3-7\"]", ExitEvent{8}, "status: it exited with 8"},
        KindCase{"exit_killed", "exit", "", ExitEvent{.signal = 9}, "signals: it was killed by signal 9"},
        KindCase{"exit_killed_listed", "exit", "signals = \"SIGKILL\"", ExitEvent{.signal = 9}, ""},
        KindCase{"exit_signals_only", "exit", "signals = \"SIGKILL\"", ExitEvent{1}, "status: it exited with 1"},
        KindCase{"exit_odd_signal", "exit", "signals = \"SIGKILL\"", ExitEvent{.signal = 200},
                 "signals: it was killed by signal 200"}),
    [](const auto &test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Tracepoint, Kinds,
    testing::Values(KindCase{"hit", "tracepoint", "tracepoint = \"sched:sched_switch\"", TracepointEvent{"r", 0, {}},
                             ""},
                    KindCase{"filter", "tracepoint", switch_filter, TracepointEvent{"r", 0, switched("pg", 2)}, ""},
                    KindCase{"filter_not", "tracepoint", switch_filter, TracepointEvent{"r", 0, switched("pg", 1)},
                             "filter: 'prev_state == 2' does not hold"},
                    KindCase{"cut_short", "tracepoint", switch_filter, TracepointEvent{"r", 0, {1, 2, 3}},
                             "filter: 'prev_state == 2' does not hold"}),
    [](const auto &test) { return std::string(test.param.name); });

TEST(KindsOfRules, AnUncheckedFilterHoldsForNothing) {
    Engine engine(good_rules(rule_on("tracepoint", switch_filter), {}));
    EXPECT_EQ(engine.decide(event(1, TracepointEvent{"r", 0, switched("pg", 2)}))[0].why,
              "filter: it was not checked against the tracepoint's format");
}

TEST(KindsOfRules, EventsGoToRulesOfTheirKindOnly) {
    Engine engine =
        engine_of(rule_on("oom", "", "a") + rule_on("exit", "", "b") + rule_on("oom", "enabled = false", "c"));
    const auto decisions = engine.decide(event(1, OomEvent{}));
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_EQ(decisions[0].rule->name, "a");
    EXPECT_TRUE(engine.decide(event(1, TxgEvent{})).empty());
    ASSERT_NE(engine.rule("b"), nullptr);
    EXPECT_EQ(engine.rule("b")->kind, "exit");
    EXPECT_EQ(engine.rule("x"), nullptr);
}

TEST(KindsOfRules, MatchDoesNotHoldForTheHost) {
    Engine engine = engine_of(rule_on("block_io", "error = true\nmatch.comm = \"*\""));
    const Event of_host = event(1, BlockIoEvent{.error = 5}, ProcessFacts{});
    EXPECT_EQ(engine.decide(of_host)[0].why, "match: this is of the host, not of a process");
    EXPECT_TRUE(engine.decide(of_host, Answers::Firings).empty());
}

TEST(KindsOfRules, WhichWantProcessesRecorded) {
    const auto watches = [](const std::string &text) { return engine_of(text).watches(process(1)); };
    const std::string counted = "count = 2\nwindow = \"1s\"\n";
    EXPECT_FALSE(watches(rule_on("reclaim", counted)));
    EXPECT_FALSE(watches(rule_on("reclaim", counted + "by = \"cgroup\"")));
    EXPECT_FALSE(watches(rule_on("reclaim", counted + "match.comm = \"app\""))) << "by host";
    EXPECT_TRUE(watches(rule_on("reclaim", counted + "by = \"process\"\nmatch.comm = \"app\"")));
    EXPECT_FALSE(watches(rule_on("reclaim", counted + "by = \"process\"\nmatch.comm = \"other\"")));
    EXPECT_FALSE(watches(rule_on("txg_sync", "threshold = \"1s\"")));
    for (const auto &[kind, lines] : {std::pair{"oom", ""}, {"exit", ""}, {"blocked", "threshold = \"1s\""}})
        EXPECT_TRUE(watches(rule_on(kind, lines))) << kind;
    EXPECT_FALSE(engine_of(rule_on("reclaim", counted)).watches_everything());
    EXPECT_TRUE(engine_of(rule_on("oom", "")).watches_everything());
}

TEST(KindsOfRules, ExitRulesWantTheirSignals) {
    Engine engine = engine_of(rule_on("exit", "signals = [\"SIGKILL\", \"SIGTERM\"]"));
    EXPECT_EQ(engine.signals(true), std::bitset<65>().set(SIGKILL).set(SIGTERM));
    EXPECT_EQ(engine.signals(false), std::bitset<65>());
}

TEST(KindsOfRules, AreAllKnownByName) {
    EXPECT_EQ(condition_kinds().size(), std::variant_size_v<ConditionKind>);
    for (std::size_t i = 0; i < condition_kinds().size(); ++i) {
        ASSERT_TRUE(condition_of_kind(condition_kinds()[i]).has_value());
        EXPECT_EQ(condition_of_kind(condition_kinds()[i])->index(), i);
    }
    EXPECT_FALSE(condition_of_kind("all").has_value());
}

TEST(KindsOfRules, LimitByCgroup) {
    Engine engine = engine_of(rule_on("oom", "limit = { per_hour = 1, by = \"cgroup\" }"));
    EXPECT_EQ(outcome(engine, event(1, OomEvent{}, process(1, "/a"))), 'F');
    EXPECT_EQ(outcome(engine, event(2, OomEvent{}, process(2, "/a"))), 's');
    EXPECT_EQ(outcome(engine, event(3, OomEvent{}, process(3, "/b"))), 'F');
}

} // namespace
} // namespace incident::rules
