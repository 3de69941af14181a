#include "rules/engine/engine.h"
#include "rules/files/parse.h"

#include <gmock/gmock.h>

#include <csignal>

namespace incident::rules {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t second = 1'000'000'000;
constexpr std::uint64_t hour = 3600 * second;

std::vector<Rule> parsed(const std::string &text) {
    auto result = parse_rules({{"test.toml", text}}, {});
    for (const Diagnostic &d : result.diagnostics)
        ADD_FAILURE() << d.text();
    return result.rules;
}

// A rule with these lines added.
std::string rule(const std::string &lines, const std::string &name = "r") {
    return "[[rule]]\nname = \"" + name + "\"\non = \"signal\"\n" + lines + "\n";
}

Event signal_event(SignalEvent signal) {
    Event event{.t_ns = 100 * second, .what = std::move(signal)};
    event.process = {.pid = 42,
                     .start_boot_ns = 7,
                     .uid = 1000,
                     .comm = "worker",
                     .exe = "/opt/app/bin/worker",
                     .cgroup = "/system.slice/app.service/jobs",
                     .unit = "app.service"};
    return event;
}

Event crash() {
    return signal_event({.number = SIGSEGV, .fatal = true, .from_kernel = true});
}

Event killed_by(std::uint32_t pid, std::uint32_t uid, const std::string &comm) {
    return signal_event({.number = SIGABRT, .fatal = true, .sender_pid = pid, .sender_uid = uid, .sender_comm = comm});
}

struct Case {
    const char *name;
    std::string lines; // of the rule
    Event event;
    std::string why; // "" : fires
};

class EngineMatch : public testing::TestWithParam<Case> {};

TEST_P(EngineMatch, DecidesAndSaysWhy) {
    Engine engine(parsed(rule(GetParam().lines)));
    const auto decisions = engine.decide(GetParam().event);
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_EQ(decisions[0].why, GetParam().why);
    EXPECT_EQ(decisions[0].outcome, GetParam().why.empty() ? Outcome::Fire : Outcome::NoMatch);
    EXPECT_EQ(decisions[0].rule, &engine.rules()[0]);
}

template <typename Change> Event crash_but(Change change) {
    Event event = crash();
    change(event);
    return event;
}

const Event handled = signal_event({.number = SIGSEGV, .from_kernel = true});
const Event hostile = crash_but([](Event &e) { e.process.comm = "a\x1b[2J"; });

INSTANTIATE_TEST_SUITE_P(
    Cases, EngineMatch,
    testing::Values(
        Case{"defaults", "", crash(), ""}, Case{"signal_listed", "signals = [11]", crash(), ""},
        Case{"signal_not_listed", "signals = [\"SIGBUS\", \"SIGRTMIN+1\", 33]", crash(),
             "signals: SIGSEGV is none of [SIGBUS, 33, SIGRTMIN+1]"},
        Case{"signal_0", "", signal_event({.number = 0, .fatal = true}), "signals: 0 is no signal number"},
        Case{"signal_65", "", signal_event({.number = 65, .fatal = true}), "signals: 65 is no signal number"},
        Case{"realtime", "signals = [\"SIGRTMIN+2\"]", signal_event({.number = SIGRTMIN + 2, .fatal = true}), ""},
        Case{"fatal_wanted", "", handled, "fatal: this SIGSEGV does not end the process"},
        Case{"also_not_fatal", "fatal = false", handled, ""},
        Case{"also_not_fatal_but_is", "fatal = false", crash(), ""}, Case{"exe", "match.exe = \"/opt/*\"", crash(), ""},
        Case{"exe_star_crosses_slashes", "match.exe = \"/*worker\"", crash(), ""},
        Case{"exe_any_of", "match.exe = [\"/usr/bin/a\", \"/opt/app/bin/worker\"]", crash(), ""},
        Case{"exe_none_of", "match.exe = [\"/usr/*\", \"/opt/app/bin/w\"]", crash(),
             "match.exe: '/opt/app/bin/worker' is none of ['/usr/*', '/opt/app/bin/w']"},
        Case{"exe_unknown", "match.exe = \"/usr/*\"", crash_but([](Event &e) { e.process.exe.clear(); }),
             "match.exe: unknown is none of ['/usr/*']"},
        Case{"comm", "match.comm = \"work?r\"", crash(), ""},
        Case{"comm_class", "match.comm = \"[v-x]orker\"", crash(), ""},
        Case{"comm_case", "match.comm = \"Worker\"", crash(), "match.comm: 'worker' is none of ['Worker']"},
        Case{"comm_hostile", "match.comm = \"x\"", hostile, "match.comm: 'a\\x1b[2J' is none of ['x']"},
        Case{"unit", "match.unit = \"app.service\"", crash(), ""},
        Case{"unit_glob", "match.unit = \"app*\"", crash(), ""},
        Case{"unit_slice_of_cgroup", "match.unit = \"system.slice\"", crash(), ""},
        Case{"unit_from_cgroup_alone", "match.unit = \"app.service\"",
             crash_but([](Event &e) { e.process.unit.clear(); }), ""},
        Case{"unit_not", "match.unit = \"jobs.service\"", crash(),
             "match.unit: 'app.service' is none of ['jobs.service']"},
        Case{"cgroup", "match.cgroup = \"/system.slice/*\"", crash(), ""},
        Case{"cgroup_not", "match.cgroup = \"/user.slice/*\"", crash(),
             "match.cgroup: '/system.slice/app.service/jobs' is none of ['/user.slice/*']"},
        Case{"uid", "match.uid = [0, 1000]", crash(), ""},
        Case{"uid_not", "match.uid = 0", crash(), "match.uid: 1000 is none of [0]"},
        Case{"all_keys_must_hold", "match = { exe = \"/opt/*\", uid = 0 }", crash(), "match.uid: 1000 is none of [0]"},
        Case{"long_list", "match.uid = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]", crash(),
             "match.uid: 1000 is none of [0, 1, 2, 3, 4, 5, 6, 7, and 2 more]"},
        Case{"self_by_kernel", "sender.self = true", crash(), ""},
        Case{"self_by_abort", "sender.self = true", killed_by(42, 1000, "worker"), ""},
        Case{"self_by_other", "sender.self = true", killed_by(99, 0, "kill"),
             "sender.self: the signal comes from process 99 ('kill')"},
        Case{"not_self_by_kernel", "sender.self = false", crash(), "sender.self: the signal comes from the kernel"},
        Case{"not_self_by_abort", "sender.self = false", killed_by(42, 1000, "worker"),
             "sender.self: the signal comes from the process itself"},
        Case{"not_self_by_other", "sender.self = false", killed_by(99, 0, "kill"), ""},
        Case{"sender_comm", "sender.comm = \"k*\"", killed_by(99, 0, "kill"), ""},
        Case{"sender_comm_not", "sender.comm = \"systemd\"", killed_by(99, 0, "kill"),
             "sender.comm: 'kill' is none of ['systemd']"},
        Case{"sender_comm_kernel", "sender.comm = \"*\"", crash(), "sender.comm: the signal comes from the kernel"},
        Case{"sender_uid", "sender.uid = 0", killed_by(99, 0, "kill"), ""},
        Case{"sender_uid_not", "sender.uid = [0, 1]", killed_by(99, 5, "kill"), "sender.uid: 5 is none of [0, 1]"},
        Case{"sender_uid_kernel", "sender.uid = 0", crash(), "sender.uid: the signal comes from the kernel"}),
    [](const auto &test) { return std::string(test.param.name); });

TEST(Engine, OneDecisionPerEnabledRuleInOrder) {
    Engine engine(parsed(rule("signals = [6]", "a") + rule("enabled = false", "b") + rule("", "c")));
    const auto decisions = engine.decide(crash());
    ASSERT_EQ(decisions.size(), 2u);
    EXPECT_EQ(decisions[0].rule->name, "a");
    EXPECT_EQ(decisions[0].outcome, Outcome::NoMatch);
    EXPECT_EQ(decisions[1].rule->name, "c");
    EXPECT_EQ(decisions[1].outcome, Outcome::Fire);
}

TEST(Engine, NoRulesDecideNothing) {
    Engine engine({});
    EXPECT_TRUE(engine.decide(crash()).empty());
    EXPECT_FALSE(engine.watches(crash().process));
    EXPECT_FALSE(engine.watches_everything());
    EXPECT_EQ(engine.counters("x").fired, 0u);
}

TEST(Engine, WatchesWhatSomeEnabledRuleMatches) {
    Engine engine(parsed(rule("match.comm = \"nginx\"", "a") + rule("match.exe = \"/opt/*\"", "b") +
                         rule("enabled = false", "c")));
    EXPECT_TRUE(engine.watches(crash().process));
    EXPECT_TRUE(engine.watches({.comm = "nginx", .exe = "/usr/sbin/nginx"}));
    EXPECT_FALSE(engine.watches({.comm = "bash", .exe = "/bin/bash"}));
    EXPECT_FALSE(engine.watches_everything());
    EXPECT_TRUE(engine.looks_at_comm());
    EXPECT_FALSE(engine.looks_at_cgroup());

    engine.replace(parsed(rule("", "a") + rule("match.unit = \"*.service\"", "b")));
    EXPECT_TRUE(engine.watches_everything());
    EXPECT_FALSE(engine.looks_at_comm());
    EXPECT_TRUE(engine.looks_at_cgroup());

    engine.replace(parsed(rule("match.cgroup = \"/x\"")));
    EXPECT_TRUE(engine.looks_at_cgroup());
    engine.replace(parsed(rule("limit = { cooldown = \"1h\", by = \"cgroup\" }")));
    EXPECT_TRUE(engine.looks_at_cgroup()) << "what is counted by it has to be told apart by it";
}

TEST(Engine, AnEventMadeForSomeRulesIsOfferedToNoOthers) {
    Engine engine(parsed(rule("", "a") + rule("", "b")));
    Event event = crash();
    EXPECT_EQ(engine.decide(event).size(), 2u);
    event.only = {"b"};
    const auto decisions = engine.decide(event);
    ASSERT_EQ(decisions.size(), 1u);
    EXPECT_EQ(decisions.front().rule->name, "b");
    event.only.emplace();
    EXPECT_TRUE(engine.decide(event).empty());
}

TEST(Engine, SignalsSomeRuleMayFireOn) {
    Engine engine(parsed(rule("signals = [\"SIGSEGV\"]", "a") + rule("signals = [\"SIGUSR1\"]\nfatal = false", "b") +
                         rule("signals = [\"SIGBUS\"]\nenabled = false", "c")));
    EXPECT_EQ(engine.signals(true), std::bitset<65>().set(SIGSEGV).set(SIGUSR1));
    EXPECT_EQ(engine.signals(false), std::bitset<65>().set(SIGUSR1));
}

TEST(Engine, CanBeMoved) {
    Engine first(parsed(rule("limit.per_hour = 1")));
    ASSERT_EQ(first.decide(crash())[0].outcome, Outcome::Fire);
    Engine second(std::move(first));
    EXPECT_EQ(second.decide(crash())[0].outcome, Outcome::Suppressed);
    Engine third({});
    third = std::move(second);
    EXPECT_EQ(third.decide(crash())[0].outcome, Outcome::Suppressed);
    EXPECT_EQ(third.counters("r").suppressed, 2u);
}

// What `decide` answers at each of these times: 'F'ire, 'S'uppressed.
std::string at(Engine &engine, const std::vector<std::uint64_t> &times, Event event = crash()) {
    std::string outcomes;
    for (const std::uint64_t t : times) {
        event.t_ns = t;
        outcomes += engine.decide(event)[0].outcome == Outcome::Fire ? 'F' : 'S';
    }
    return outcomes;
}

TEST(EngineLimit, WithoutOneEveryMatchFires) {
    Engine engine(parsed(rule("")));
    EXPECT_EQ(at(engine, {0, 0, 0, 1, 2}), "FFFFF");
}

TEST(EngineLimit, Cooldown) {
    Engine engine(parsed(rule("limit.cooldown = \"10s\"")));
    // Suppressed matches do not make it longer.
    EXPECT_EQ(at(engine, {0, 9 * second, 10 * second - 1, 10 * second, 19 * second, 20 * second}), "FSSFSF");
}

TEST(EngineLimit, CooldownLongerThanAnHourBesidePerHour) {
    Engine engine(parsed(rule("limit = { cooldown = \"2h\", per_hour = 5 }")));
    EXPECT_EQ(at(engine, {0, hour, 2 * hour - 1, 2 * hour}), "FSSF");
}

TEST(EngineLimit, PerHourIsASlidingWindow) {
    Engine engine(parsed(rule("limit.per_hour = 2")));
    EXPECT_EQ(at(engine, {0, 1800 * second, 3000 * second, hour - 1, hour, hour + 1, hour + 1800 * second}), "FFSSFSF");
}

TEST(EngineLimit, SaysWhichLimitHolds) {
    Engine engine(parsed(rule("limit = { cooldown = \"10s\", per_hour = 1 }")));
    Event event = crash();
    engine.decide(event);
    event.t_ns += 2 * second;
    EXPECT_EQ(engine.decide(event)[0].why, "limit.cooldown: 2s after the last firing, less than 10s");
    event.t_ns += 60 * second;
    EXPECT_EQ(engine.decide(event)[0].why, "limit.per_hour: fired 1 times within the last hour, the limit is 1");
}

TEST(EngineLimit, CountsWhatWasSuppressedBeforeAFiring) {
    Engine engine(parsed(rule("limit.cooldown = \"10s\"")));
    Event event = crash();
    event.t_ns = 0;
    EXPECT_EQ(engine.decide(event)[0].suppressed_before, 0u);
    EXPECT_EQ(at(engine, {1, 2, 3}), "SSS");
    event.t_ns = 10 * second;
    EXPECT_EQ(engine.decide(event)[0].suppressed_before, 3u);
    event.t_ns = 20 * second;
    EXPECT_EQ(engine.decide(event)[0].suppressed_before, 0u);
    EXPECT_EQ(engine.counters("r").fired, 3u);
    EXPECT_EQ(engine.counters("r").suppressed, 3u);
}

TEST(EngineLimit, OnlyMatchesCount) {
    Engine engine(parsed(rule("limit.per_hour = 1\nmatch.uid = 0")));
    EXPECT_EQ(engine.decide(crash())[0].outcome, Outcome::NoMatch);
    EXPECT_EQ(engine.counters("r").suppressed, 0u);
    Event root = crash();
    root.process.uid = 0;
    EXPECT_EQ(engine.decide(root)[0].outcome, Outcome::Fire);
}

// First and second firing of two processes under a limit `by` something.
std::string two(const std::string &by, const ProcessFacts &a, const ProcessFacts &b) {
    Engine engine(parsed(rule("limit = { per_hour = 1, by = \"" + by + "\" }")));
    Event first = crash(), second_event = crash();
    first.process = a;
    second_event.process = b;
    const std::string answer = at(engine, {5}, first);
    return answer + at(engine, {6}, second_event);
}

TEST(EngineLimit, ByWhat) {
    const ProcessFacts a{.pid = 1, .start_boot_ns = 1, .comm = "a", .exe = "/a"};
    ProcessFacts other_pid = a, reused_pid = a, other_exe = a;
    other_pid.pid = 2;
    reused_pid.start_boot_ns = 2;
    other_exe.exe = "/b";
    EXPECT_EQ(two("rule", a, other_exe), "FS");
    EXPECT_EQ(two("process", a, a), "FS");
    EXPECT_EQ(two("process", a, other_pid), "FF");
    EXPECT_EQ(two("process", a, reused_pid), "FF");
    EXPECT_EQ(two("exe", a, other_pid), "FS");
    EXPECT_EQ(two("exe", a, other_exe), "FF");
    // Unknown executables are told apart by comm.
    EXPECT_EQ(two("exe", {.comm = "a"}, {.comm = "a"}), "FS");
    EXPECT_EQ(two("exe", {.comm = "a"}, {.comm = "b"}), "FF");
}

TEST(EngineLimit, EachUserHasTheWholeOfIt) {
    const ProcessFacts root{.pid = 1, .start_boot_ns = 1, .uid = 0, .comm = "a", .exe = "/a", .cgroup = "/c"};
    ProcessFacts user = root, set_user_id = root;
    user.uid = 1000;
    set_user_id.real_uid = 1000;
    for (const char *by : {"rule", "exe", "cgroup"}) {
        EXPECT_EQ(two(by, user, root), "FF") << by;
        EXPECT_EQ(two(by, set_user_id, root), "FF") << by << ": whoever starts it uses up her own";
        EXPECT_EQ(two(by, set_user_id, user), "FS") << by;
    }
    EXPECT_EQ(two("exe", {.uid = 1000, .comm = "a"}, {.comm = "a"}), "FF");
    Engine engine(parsed(rule("limit = { cooldown = \"1m\", by = \"rule\" }")));
    Event event = crash();
    for (std::uint32_t uid = 0; uid < 5; ++uid) {
        event.process.uid = uid;
        EXPECT_EQ(at(engine, {1, 2}, event), "FS");
    }
}

// All users together have eight times the limit; beyond that each has one an hour.
TEST(EngineLimit, AllUsersTogetherHaveAMultipleOfIt) {
    Engine engine(parsed(rule("limit = { per_hour = 3, by = \"exe\" }")));
    const auto of = [&](std::uint32_t uid, std::vector<std::uint64_t> times) {
        Event event = crash();
        event.process.uid = uid;
        return at(engine, times, event);
    };
    for (std::uint32_t uid = 0; uid < 8; ++uid)
        EXPECT_EQ(of(uid, {1, 2, 3, 4}), "FFFS");
    EXPECT_EQ(of(8, {5, 6, 7}), "FSS") << "no user is left without one";
    Event event = crash();
    event.t_ns = 8;
    event.process.uid = 8;
    EXPECT_EQ(engine.decide(event)[0].why, "limit.per_hour: fired 25 times for all users within the last hour, the "
                                           "limit for them together is 24");
    EXPECT_EQ(of(9, {9, 10}), "FS");
    event.process.exe = "/another";
    EXPECT_EQ(at(engine, {11, 12, 13, 14}, event), "FFFS");
    EXPECT_EQ(of(8, {hour + 100 * second}), "F");
}

// subuid(5): a user may take any id of her range.
TEST(EngineLimit, AUserWithManyIdsHasSoManyTimesIt) {
    Engine engine(parsed(rule("limit = { cooldown = \"1m\", by = \"exe\" }")));
    std::string fired;
    for (std::uint32_t i = 0; i < 40; ++i) {
        Event event = crash();
        event.process.uid = 131'072 + i;
        fired += at(engine, {1}, event);
    }
    EXPECT_EQ(fired, std::string(17, 'F') + std::string(23, 'S'));
}

// Whatever the others do, and in whatever order: a user's own firings are answered as if she were alone.
TEST(EngineLimit, NoFloodOfOthersChangesAUsersAnswers) {
    for (const char *by : {"rule", "exe", "cgroup", "process"}) {
        const std::string text = rule(std::string("limit = { cooldown = \"5s\", per_hour = 4, by = \"") + by + "\" }");
        Engine alone(parsed(text)), among(parsed(text));
        std::uint32_t random = 1;
        const auto drawn = [&](std::uint32_t below) {
            random = random * 1664525 + 1013904223;
            return (random >> 8) % below;
        };
        for (int i = 0; i < 30'000; ++i) {
            Event event = crash();
            event.t_ns = static_cast<std::uint64_t>(i) * second / 2;
            event.process.pid = 1 + drawn(by == std::string("process") ? 5000 : 5);
            event.process.exe = "/bin/" + std::to_string(drawn(3));
            const bool own = drawn(50) == 0;
            event.process.uid = own ? 0 : 1000 + drawn(3);
            if (!own) { // of what the others have, more than can be remembered
                event.process.exe += std::to_string(drawn(20'000) * drawn(2));
                event.process.cgroup += std::to_string(drawn(20'000) * drawn(2));
            }
            const auto answer = among.decide(event);
            if (own) {
                const auto expected = alone.decide(event);
                ASSERT_EQ(answer[0].outcome, expected[0].outcome) << by << " " << i << " " << answer[0].why;
                ASSERT_EQ(answer[0].why, expected[0].why);
                ASSERT_EQ(answer[0].suppressed_before, expected[0].suppressed_before);
            }
        }
    }
}

TEST(EngineLimit, TimesThatRunBackwardsCountAsTheLatest) {
    Engine engine(parsed(rule("limit.cooldown = \"10s\"")));
    EXPECT_EQ(at(engine, {100 * second, 90 * second, 50 * second, 109 * second, 110 * second}), "FSSSF");
    Engine hourly(parsed(rule("limit.per_hour = 2")));
    EXPECT_EQ(at(hourly, {100 * second, 90 * second, 95 * second, 101 * second}), "FFSS");
}

TEST(EngineLimit, MemoryIsBoundedAndForgetsTheLeastRecentlyUsed) {
    Engine engine(parsed(rule("limit = { per_hour = 1, by = \"exe\" }")));
    Event event = crash();
    const auto fires = [&](int exe) {
        event.process.exe = "/bin/" + std::to_string(exe);
        ++event.t_ns;
        return engine.decide(event)[0].outcome == Outcome::Fire;
    };
    for (int exe = 0; exe < 4096; ++exe)
        EXPECT_TRUE(fires(exe));
    EXPECT_FALSE(fires(0)); // used now, so 1 is the oldest
    EXPECT_EQ(engine.counters("r").forgotten_keys, 0u);
    EXPECT_TRUE(fires(5000));
    EXPECT_EQ(engine.counters("r").forgotten_keys, 1u);
    EXPECT_FALSE(fires(0));
    EXPECT_TRUE(fires(1));
}

TEST(EngineLimit, RememberedTimesAreBoundedOverAllKeys) {
    Engine engine(parsed(rule("limit = { per_hour = 10000, by = \"exe\" }")));
    Event event = crash();
    for (int exe = 0; exe < 7; ++exe) {
        event.process.exe = "/bin/" + std::to_string(exe);
        for (int i = 0; i < 10000; ++i)
            engine.decide(event);
    }
    EXPECT_EQ(engine.counters("r").fired, 70000u);
    EXPECT_EQ(engine.counters("r").forgotten_keys, 1u); // 7 × 10000 > 65536
}

TEST(EngineReplace, UnchangedRulesKeepTheirMemory) {
    const std::string limited = rule("limit.per_hour = 1", "kept");
    Engine engine(parsed(limited + rule("limit.per_hour = 1", "changed") + rule("", "gone")));
    engine.decide(crash());
    engine.replace(parsed("# a comment more\n\n" + rule("limit.per_hour = 1\nfatal = false", "changed") + limited));
    const auto decisions = engine.decide(crash());
    ASSERT_EQ(decisions.size(), 2u);
    EXPECT_EQ(decisions[0].outcome, Outcome::Fire) << "a changed rule starts afresh";
    EXPECT_EQ(decisions[1].outcome, Outcome::Suppressed);
    EXPECT_EQ(engine.counters("changed").fired, 2u) << "counters go on";
    EXPECT_EQ(engine.counters("kept").suppressed, 1u);
    EXPECT_EQ(engine.counters("gone").fired, 0u);
}

TEST(Engine, SameEventsSameDecisions) {
    const std::string text = rule("limit = { cooldown = \"3s\", per_hour = 7, by = \"exe\" }");
    Engine first(parsed(text)), second_engine(parsed(text));
    for (std::uint64_t i = 0; i < 500; ++i) {
        Event event = crash();
        event.t_ns = i * i * 10'000'000 % (2 * hour);
        event.process.exe = "/bin/" + std::to_string(i % 5);
        const auto a = first.decide(event), b = second_engine.decide(event);
        EXPECT_EQ(a[0].outcome, b[0].outcome);
        EXPECT_EQ(a[0].why, b[0].why);
    }
}

} // namespace
} // namespace incident::rules
