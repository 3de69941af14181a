// Good files: every key sets its member, and a rule's text contains all of them.

#include "rules/conditions/kinds.h"
#include "rules/engine/engine.h"
#include "tests/rules/fakes.h"

#include <gmock/gmock.h>

#include <csignal>
#include <set>

namespace incident::rules {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(ParseRules, Defaults) {
    const auto rules = good_rules("\n[[rule]]\nname = \"r\"\non = \"signal\"\n");
    ASSERT_EQ(rules.size(), 1u);
    const Rule &rule = rules[0];
    EXPECT_EQ(rule.kind, "signal");
    EXPECT_TRUE(rule.enabled);
    EXPECT_TRUE(rule.match.everything());
    EXPECT_EQ(rule.limit.cooldown, Nanoseconds(0));
    EXPECT_EQ(rule.limit.per_hour, std::nullopt);
    EXPECT_EQ(rule.limit.by, LimitBy::Exe);
    EXPECT_EQ(rule.context.stack_bytes, 32u * 1024);
    EXPECT_FALSE(rule.context.environ);
    EXPECT_EQ(rule.context.allocations, Allocations::Pages);
    EXPECT_THAT(rule.context.logs, IsEmpty());
    EXPECT_EQ(rule.at.file, "test.toml");
    EXPECT_EQ(rule.at.line, 2);
    EXPECT_EQ(rule.at.column, 1);
    const auto &condition = std::get<SignalCondition>(rule.conditions[0].what);
    EXPECT_TRUE(condition.fatal);
    EXPECT_TRUE(condition.sender.everything());
    std::bitset<65> expected;
    for (int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP})
        expected.set(static_cast<std::size_t>(number));
    EXPECT_EQ(condition.signals, expected);
}

TEST(ParseRules, EveryKey) {
    const auto rules = good_rules(read(TEST_DATA "/rules/good-everything.toml"));
    ASSERT_EQ(rules.size(), 2u);
    const Rule &rule = rules[0];
    EXPECT_EQ(rule.name, "worker-abort");
    EXPECT_FALSE(rule.enabled);
    EXPECT_THAT(rule.match.unit, ElementsAre("worker@*.service", "batch.slice"));
    EXPECT_THAT(rule.match.exe, ElementsAre("/usr/bin/*"));
    EXPECT_THAT(rule.match.comm, ElementsAre("python3", "exactly-15-char"));
    EXPECT_THAT(rule.match.cgroup, ElementsAre("/system.slice/*"));
    EXPECT_THAT(rule.match.uid, ElementsAre(65534, 1000));
    EXPECT_EQ(rule.limit.cooldown, seconds(90));
    EXPECT_EQ(rule.limit.per_hour, 20u);
    EXPECT_EQ(rule.limit.by, LimitBy::Process);
    EXPECT_EQ(rule.context.stack_bytes, 256u * 1024);
    EXPECT_FALSE(rule.context.files);
    EXPECT_FALSE(rule.context.memory);
    EXPECT_FALSE(rule.context.host);
    EXPECT_TRUE(rule.context.environ);
    EXPECT_EQ(rule.context.allocations, Allocations::History);
    EXPECT_EQ(rule.context.payload, 128u);
    EXPECT_THAT(rule.context.logs, ElementsAre("/var/log/app/*.log", "/srv/out"));
    const auto &condition = std::get<SignalCondition>(rule.conditions[0].what);
    std::bitset<65> expected;
    for (int number : {SIGABRT, SIGSEGV, SIGFPE, SIGRTMIN + 3, SIGRTMAX, SIGKILL})
        expected.set(static_cast<std::size_t>(number));
    EXPECT_EQ(condition.signals, expected);
    EXPECT_THAT(condition.sender.comm, ElementsAre("kill*"));
    EXPECT_THAT(condition.sender.uid, ElementsAre(0, 0));
    EXPECT_EQ(condition.sender.self, false);

    EXPECT_FALSE(std::get<SignalCondition>(rules[1].conditions[0].what).fatal);
    EXPECT_EQ(rules[1].context.stack_bytes, 0u);
    EXPECT_EQ(rules[1].limit.cooldown, hours(24));
}

TEST(ParseRules, TextStatesEveryEffectiveValue) {
    const auto rules = good_rules(read(TEST_DATA "/rules/good-everything.toml"));
    ASSERT_EQ(rules.size(), 2u);
    EXPECT_EQ(rules[0].text,
              R"([[rule]]
name = "worker-abort"
on = "signal"
enabled = false
signals = ["SIGABRT", "SIGFPE", "SIGKILL", "SIGSEGV", "SIGRTMIN+3", "SIGRTMIN+30"]
fatal = true
sender = { comm = ["kill*"], uid = [0, 0], self = false }
match = { unit = ["worker@*.service", "batch.slice"], exe = ["/usr/bin/*"], comm = ["python3", "exactly-15-char"], cgroup = ["/system.slice/*"], uid = [65534, 1000] }
limit = { cooldown = "90s", per_hour = 20, by = "process" }
context = { stack = "256KiB", files = false, memory = false, host = false, environ = true, allocations = "history", payload = 128, logs = ["/var/log/app/*.log", "/srv/out"] }
)");
    EXPECT_EQ(rules[1].text,
              R"([[rule]]
name = "second"
on = "signal"
enabled = true
signals = ["SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGSYS"]
fatal = false
limit = { cooldown = "1d", by = "exe" }
context = { stack = "0B", files = true, memory = true, host = true, environ = false, allocations = "pages" }
)");
}

// A word and its enumerator: that the text parses to the same rule would hold of two that are exchanged as well.
TEST(ParseRules, EachWordIsItsEnumerator) {
    const auto rule = [](const std::string &keys) {
        const auto rules = good_rules("[[rule]]\nname = \"r\"\nmatch = { exe = [\"/bin/a\"] }\n" + keys + "\n");
        return rules.empty() ? Rule{.conditions = {Condition{}}} : rules[0];
    };
    const auto limit = [&](const std::string &by) {
        return rule("on = \"signal\"\nlimit = { cooldown = \"1s\", by = \"" + by + "\" }").limit.by;
    };
    EXPECT_EQ(limit("rule"), LimitBy::Rule);
    EXPECT_EQ(limit("process"), LimitBy::Process);
    EXPECT_EQ(limit("exe"), LimitBy::Exe);
    EXPECT_EQ(limit("cgroup"), LimitBy::Cgroup);
    const auto allocations = [&](const std::string &word) {
        return rule("on = \"signal\"\ncontext = { allocations = \"" + word + "\" }").context.allocations;
    };
    EXPECT_EQ(allocations("pages"), Allocations::Pages);
    EXPECT_EQ(allocations("sizes"), Allocations::Sizes);
    EXPECT_EQ(allocations("history"), Allocations::History);
    const auto tally = [&](const std::string &by) {
        return rule("on = \"reclaim\"\ncount = 2\nwindow = \"10s\"\nby = \"" + by + "\"").conditions[0].tally.by;
    };
    EXPECT_EQ(tally("process"), TallyBy::Process);
    EXPECT_EQ(tally("cgroup"), TallyBy::Cgroup);
    EXPECT_EQ(tally("host"), TallyBy::Host);
    const auto scope = [&](const std::string &word) {
        return std::get<OomCondition>(rule("on = \"oom\"\nscope = \"" + word + "\"").conditions[0].what).scope;
    };
    EXPECT_EQ(scope("any"), OomCondition::Scope::Any);
    EXPECT_EQ(scope("cgroup"), OomCondition::Scope::Cgroup);
    EXPECT_EQ(scope("host"), OomCondition::Scope::Host);
    const auto when = [&](const std::string &word) {
        const std::string keys = "on = \"latency\"\nprobe = \"uprobe:/bin/a:b\"\nthreshold = \"100ms\"\n";
        return std::get<LatencyCondition>(rule(keys + "when = \"" + word + "\"").conditions[0].what).when;
    };
    EXPECT_EQ(when("return"), When::Return);
    EXPECT_EQ(when("deadline"), When::Deadline);
}

// Of every good file: the text of a rule is the rule.
TEST(ParseRules, TextParsesToTheSameRule) {
    std::size_t rules = 0;
    for (const auto &entry : std::filesystem::directory_iterator(TEST_DATA "/rules")) {
        const std::string name = entry.path().filename();
        if (!name.starts_with("good-") || !name.ends_with(".toml"))
            continue;
        const auto parsed = parse_rules({{name, read(entry.path())}}, fake_lookups());
        for (const Rule &rule : parsed.rules) {
            const auto again = good_rules(rule.text);
            ASSERT_EQ(again.size(), 1u) << rule.text;
            EXPECT_EQ(again[0].text, rule.text);
            EXPECT_TRUE(same(again[0], rule)) << rule.text;
            ++rules;
        }
    }
    EXPECT_GE(rules, 40u);
}

TEST(ParseRules, TextKeepsAwkwardPatterns) {
    const auto rules = good_rules(
        "[[rule]]\nname = \"r\"\non = \"signal\"\nmatch.comm = [\"a\\\"b\\\\\\\\c\", \"\\u001b\\n\\u007f\", 'é']\n");
    ASSERT_EQ(rules.size(), 1u);
    EXPECT_THAT(rules[0].match.comm, ElementsAre("a\"b\\\\c", "\x1b\n\x7f", "é"));
    const auto again = good_rules(rules[0].text);
    ASSERT_EQ(again.size(), 1u);
    EXPECT_EQ(again[0].match.comm, rules[0].match.comm);
}

TEST(ParseConfig, EveryKey) {
    const auto parsed = parse_config({"c.toml", read(TEST_DATA "/rules/config-good.toml")});
    EXPECT_THAT(parsed.diagnostics, IsEmpty());
    const Config &c = parsed.config;
    EXPECT_EQ(c.record.threads, 1024u);
    EXPECT_EQ(c.record.calls, 48u << 20);
    EXPECT_EQ(c.record.past, minutes(5));
    EXPECT_EQ(c.record.processes, 100u);
    EXPECT_EQ(c.record.ring_buffer, 8u << 20);
    EXPECT_EQ(c.record.memory_limit, 1u << 30);
    EXPECT_TRUE(c.record.all_paths);
    EXPECT_FALSE(c.record.durations);
    EXPECT_EQ(c.heap.memory, 1u << 30);
    EXPECT_EQ(c.heap.live, 200000u);
    EXPECT_EQ(c.heap.stacks, 1000u);
    EXPECT_EQ(c.heap.history, 4096u);
    EXPECT_EQ(c.heap.window, seconds(30));
    EXPECT_EQ(c.capture.deadline, milliseconds(500));
    EXPECT_EQ(c.capture.core_wait, seconds(0));
    EXPECT_FALSE(c.capture.analyse);
    EXPECT_EQ(c.capture.journal_lines, 0u);
    EXPECT_EQ(c.budget.bundles, 5u);
    EXPECT_EQ(c.budget.bytes, 10ull << 30);
    EXPECT_EQ(c.budget.keep_free, 0u);
    EXPECT_EQ(c.budget.at_least, 3u);
    EXPECT_EQ(c.budget.reserve, 1u << 20);
    EXPECT_EQ(c.cost.budget, 0.0025);
    EXPECT_EQ(c.cost.every, seconds(30));
    EXPECT_THAT(c.privacy.redact, ElementsAre("password=\\S+", "token"));
    EXPECT_THAT(c.safety.never, ElementsAre("sshd", "*.mount"));
    EXPECT_EQ(c.log_level, "debug");
}

TEST(ParseConfig, WrongValuesLeaveTheDefaults) {
    const auto parsed = parse_config({"c.toml", "[record]\nthreads = 0\ncalls = \"1B\"\nprocesses = 100\n"});
    EXPECT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.config.record.threads, Config{}.record.threads);
    EXPECT_EQ(parsed.config.record.calls, Config{}.record.calls);
    EXPECT_EQ(parsed.config.record.processes, 100u);
}

TEST(ParseConfig, AFileOfBeforeIsReadOnWithAWarning) {
    const auto parsed = parse_config({"c.toml", "[record]\nsyscalls = 100\nprocesses = 100\n"});
    EXPECT_TRUE(parsed.ok());
    ASSERT_EQ(parsed.diagnostics.size(), 1u);
    EXPECT_THAT(parsed.diagnostics[0].text(),
                testing::HasSubstr("c.toml:2:12: warning: 'syscalls' has no effect any more"));
    EXPECT_EQ(parsed.config.record.processes, 100u);
}

// The shipped files, as they are and with every setting in comments turned on.

const std::string systemd = TEST_DATA "/../../systemd/";

// Lines "#key = …" and "#match = …" are settings; "# Text" is not.
std::string with_comments_on(const std::string &text) {
    std::string out;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
        std::string line = text.substr(begin, end - begin);
        if (line.size() > 1 && line[0] == '#' && line[1] >= 'a' && line[1] <= 'z')
            line.erase(0, 1);
        out += line;
        begin = end;
    }
    return out;
}

TEST(Shipped, CrashRule) {
    const std::string text = read(systemd + "rules.d/crash.toml");
    const auto rules = good_rules(text);
    ASSERT_EQ(rules.size(), 1u);
    EXPECT_EQ(rules[0].name, "crash");
    EXPECT_TRUE(rules[0].match.everything());
    EXPECT_EQ(rules[0].limit.by, LimitBy::Exe);
    EXPECT_EQ(rules[0].limit.cooldown, Nanoseconds(0));
    EXPECT_GE(rules[0].limit.per_hour.value_or(1000), 20u);
    EXPECT_EQ(good_rules(with_comments_on(text)).size(), 1u);
}

// Every file as it is, and with its settings in comments turned on, has nothing wrong with it.
TEST(Shipped, EveryFileIsGood) {
    std::size_t files = 0;
    std::set<std::string> kinds, names, enabled;
    for (const auto &entry : std::filesystem::directory_iterator(systemd + "rules.d")) {
        const std::string text = read(entry.path());
        SCOPED_TRACE(entry.path());
        for (const Rule &rule : good_rules(text)) {
            EXPECT_TRUE(names.insert(rule.name).second) << rule.name << " is in two files";
            EXPECT_TRUE(rule.limit.per_hour.has_value()) << rule.name << " could fill a disk";
            EXPECT_FALSE(rule.dump.has_value()) << rule.name << " would signal processes";
            for (const Condition &condition : rule.conditions)
                kinds.insert(condition.kind);
            if (rule.enabled)
                enabled.insert(rule.name);
        }
        EXPECT_GE(good_rules(with_comments_on(text)).size(), 1u);
        EXPECT_EQ(good_rules(text, {}).size(), good_rules(text).size()) << "also where nothing can be looked up";
        ++files;
    }
    EXPECT_EQ(files, condition_kinds().size());
    EXPECT_EQ(kinds.size(), condition_kinds().size()) << "one for each kind";
    EXPECT_THAT(enabled, ElementsAre("crash", "oom", "reclaim-storm", "txg-stall"));
}

// With all of them on a host is as cheap as these four are: nothing else is switched on.
TEST(Shipped, HostRulesWatchNobody) {
    Engine host(good_rules(read(systemd + "rules.d/reclaim.toml") + read(systemd + "rules.d/txg.toml")));
    EXPECT_FALSE(host.watches_everything());
    EXPECT_FALSE(host.watches({.pid = 1, .exe = "/sbin/init"}));
}

TEST(Shipped, ConfigurationStatesTheDefaults) {
    const std::string text = read(systemd + "incidentd.toml");
    const auto plain = parse_config({"incidentd.toml", text});
    EXPECT_THAT(plain.diagnostics, IsEmpty());
    const auto on = parse_config({"incidentd.toml", with_comments_on(text)});
    for (const Diagnostic &d : on.diagnostics)
        ADD_FAILURE() << d.text();
    const Config &a = on.config, defaults{};
    EXPECT_EQ(a.record.threads, defaults.record.threads);
    EXPECT_EQ(a.record.calls, defaults.record.calls);
    EXPECT_EQ(a.record.past, defaults.record.past);
    EXPECT_EQ(a.record.processes, defaults.record.processes);
    EXPECT_EQ(a.record.ring_buffer, defaults.record.ring_buffer);
    EXPECT_EQ(a.record.memory_limit, defaults.record.memory_limit);
    EXPECT_EQ(a.record.all_paths, defaults.record.all_paths);
    EXPECT_EQ(a.record.durations, defaults.record.durations);
    EXPECT_EQ(a.heap.memory, defaults.heap.memory);
    EXPECT_EQ(a.heap.live, defaults.heap.live);
    EXPECT_EQ(a.heap.stacks, defaults.heap.stacks);
    EXPECT_EQ(a.heap.history, defaults.heap.history);
    EXPECT_EQ(a.heap.window, defaults.heap.window);
    EXPECT_EQ(a.capture.deadline, defaults.capture.deadline);
    EXPECT_EQ(a.capture.core_wait, defaults.capture.core_wait);
    EXPECT_EQ(a.capture.journal_lines, defaults.capture.journal_lines);
    EXPECT_EQ(a.budget.bundles, defaults.budget.bundles);
    EXPECT_EQ(a.budget.bytes, defaults.budget.bytes);
    EXPECT_EQ(a.budget.keep_free, defaults.budget.keep_free);
    EXPECT_EQ(a.budget.at_least, defaults.budget.at_least);
    EXPECT_EQ(a.budget.reserve, defaults.budget.reserve);
    EXPECT_EQ(a.cost.budget, defaults.cost.budget);
    EXPECT_EQ(a.cost.every, defaults.cost.every);
    EXPECT_EQ(a.safety.allow_dump, defaults.safety.allow_dump);
    EXPECT_EQ(a.safety.dumps_per_hour, defaults.safety.dumps_per_hour);
    EXPECT_EQ(a.access.group, defaults.access.group);
    EXPECT_EQ(a.hook.unit, defaults.hook.unit);
    EXPECT_EQ(a.hook.per_hour, defaults.hook.per_hour);
    EXPECT_EQ(a.storm.full, defaults.storm.full);
    EXPECT_EQ(a.storm.light, defaults.storm.light);
    EXPECT_EQ(a.storm.window, defaults.storm.window);
    EXPECT_EQ(a.log_level, defaults.log_level);
    EXPECT_EQ(a.privacy.redact.size(), 2u) << "the examples are on";
}

} // namespace
} // namespace incident::rules
