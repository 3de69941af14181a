// What the keys of each kind of condition mean, and what depends on the whole rule.

#include "tests/rules/fakes.h"

#include <gmock/gmock.h>

#include <cerrno>
#include <csignal>

namespace incident::rules {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// The only rule of a file, by name.
const Rule &rule_of(const std::string &file, const std::string &name) {
    static std::map<std::string, std::vector<Rule>> parsed;
    auto &rules = parsed[file];
    if (rules.empty())
        rules = good_rules(read(TEST_DATA "/rules/" + file));
    for (const Rule &rule : rules)
        if (rule.name == name)
            return rule;
    ADD_FAILURE() << "no rule " << name << " in " << file;
    return rules.at(0);
}

template <typename Kind> const Kind &only(const Rule &rule) {
    return std::get<Kind>(rule.conditions.at(0).what);
}

TEST(Conditions, Latency) {
    const auto &plain = rule_of("good-latency.toml", "return");
    EXPECT_EQ(plain.kind, "latency");
    EXPECT_EQ(plain.combine, Combine::One);
    const auto &defaults = only<LatencyCondition>(plain);
    EXPECT_EQ(defaults.enter.kind, ProbePoint::Kind::Uprobe);
    EXPECT_EQ(defaults.enter.binary, "/usr/bin/app");
    EXPECT_EQ(defaults.enter.symbol, "handle");
    EXPECT_EQ(defaults.enter.offset, 0u);
    EXPECT_EQ(defaults.enter.text, "uprobe:/usr/bin/app:handle");
    EXPECT_FALSE(defaults.leave.has_value());
    EXPECT_EQ(defaults.threshold, 1us);
    EXPECT_EQ(defaults.when, When::Return);
    EXPECT_EQ(defaults.max_rate, 50'000u);
    EXPECT_TRUE(plain.conditions[0].tally.each());
    EXPECT_EQ(plain.limit.by, LimitBy::Exe);

    const auto &library = rule_of("good-latency.toml", "versioned-in-a-library");
    EXPECT_EQ(only<LatencyCondition>(library).enter.binary, "libpthread.so.0");
    EXPECT_EQ(only<LatencyCondition>(library).enter.symbol, "pthread_mutex_lock@@GLIBC_2.2.5");
    EXPECT_EQ(only<LatencyCondition>(library).max_rate, 100'000u);
    const Tally expected{.count = 5, .window = 1min, .by = TallyBy::Cgroup};
    EXPECT_EQ(library.conditions[0].tally, expected);

    const auto &demangled = rule_of("good-latency.toml", "demangled");
    EXPECT_EQ(only<LatencyCondition>(demangled).enter.symbol, "db::Table::operator+(db::Row const&, int)");
    EXPECT_EQ(only<LatencyCondition>(demangled).enter.offset, 0u);
    EXPECT_EQ(only<LatencyCondition>(demangled).when, When::Deadline);
    EXPECT_EQ(demangled.dump, (Dump{.signal = SIGQUIT, .dry_run = true}));

    const auto &rust = only<LatencyCondition>(rule_of("good-latency.toml", "rust"));
    EXPECT_EQ(rust.enter.symbol, "<dyn core::any::Any + core::marker::Send as app::Run<*mut u8>>::run");

    const auto &places = rule_of("good-latency.toml", "two-places");
    EXPECT_EQ(only<LatencyCondition>(places).enter.offset, 16u);
    ASSERT_TRUE(only<LatencyCondition>(places).leave.has_value());
    EXPECT_EQ(only<LatencyCondition>(places).leave->symbol, "end_request");
    EXPECT_EQ(only<LatencyCondition>(places).leave->offset, 4u);
    EXPECT_EQ(places.conditions[0].tally.stalled, 10s);

    const auto &usdt = only<LatencyCondition>(rule_of("good-latency.toml", "usdt"));
    EXPECT_EQ(usdt.enter.kind, ProbePoint::Kind::Usdt);
    EXPECT_EQ(usdt.enter.binary, "/usr/lib/postgresql/15/bin/postgres");
    EXPECT_EQ(usdt.enter.provider, "postgresql");
    EXPECT_EQ(usdt.enter.name, "query__start");
    EXPECT_EQ(usdt.leave->name, "query__done");
}

// Names of functions are nobody's choice: what they hold is not for us to judge.
TEST(Conditions, FunctionsMayHaveAnyName) {
    const auto symbol = [](const std::string &name) {
        const auto rules =
            good_rules("[[rule]]\nname = \"r\"\non = \"latency\"\nthreshold = \"1s\"\nenter = 'uprobe:/a:" + name +
                       "'\nleave = 'uprobe:/a:end'\n");
        return rules.empty() ? ""
                             : only<LatencyCondition>(rules[0]).enter.symbol + " " +
                                   std::to_string(only<LatencyCondition>(rules[0]).enter.offset);
    };
    for (const char *name :
         {"_ZN2db5Table6insertERKNS_3RowE", "operator+", "a::operator++(int)", "operator*",
          "std::vector<int>::push_back(int const&)", "main.main", "core::ptr::drop_in_place$LT$x$GT$", "f@@GLIBC_2.34",
          "f@V1", "a::operator+(b)", "f(int*)"})
        EXPECT_EQ(symbol(name), std::string(name) + " 0");
    EXPECT_EQ(symbol("main.main+8"), "main.main 8");
    EXPECT_EQ(symbol("f(int*)+0x20"), "f(int*) 32");
}

TEST(Conditions, Host) {
    EXPECT_EQ(only<OomCondition>(rule_of("good-host.toml", "oom-of-cgroups")).scope, OomCondition::Scope::Cgroup);
    EXPECT_EQ(only<OomCondition>(rule_of("good-host.toml", "oom-often")).scope, OomCondition::Scope::Host);
    EXPECT_EQ(only<OomCondition>(rule_of("good-design.toml", "oom")).scope, OomCondition::Scope::Any);

    const Rule &storm = rule_of("good-design.toml", "reclaim-storm");
    EXPECT_TRUE(only<ReclaimCondition>(storm).direct && only<ReclaimCondition>(storm).cgroup);
    EXPECT_EQ(only<ReclaimCondition>(storm).slower_than, 0ns);
    EXPECT_EQ(storm.conditions[0].tally, (Tally{.count = 1000, .stalled = 900ms, .window = 30s, .by = TallyBy::Host}));
    EXPECT_EQ(storm.limit.by, LimitBy::Rule) << "a firing of the host is no executable's";

    const Rule &process = rule_of("good-host.toml", "reclaim-by-process");
    EXPECT_TRUE(only<ReclaimCondition>(process).direct);
    EXPECT_FALSE(only<ReclaimCondition>(process).cgroup);
    EXPECT_EQ(process.conditions[0].tally, (Tally{.count = 1, .stalled = 1s, .window = 10s, .by = TallyBy::Process}));
    EXPECT_EQ(process.limit.by, LimitBy::Exe);
    EXPECT_EQ(process.dump, (Dump{.signal = SIGABRT}));
    EXPECT_FALSE(only<ReclaimCondition>(rule_of("good-host.toml", "reclaim-by-cgroup")).direct);
    EXPECT_EQ(rule_of("good-host.toml", "reclaim-by-cgroup").limit.by, LimitBy::Cgroup);

    const Rule &pool = rule_of("good-design.toml", "txg-stall");
    EXPECT_EQ(only<TxgCondition>(pool).when, When::Deadline);
    EXPECT_EQ(only<TxgCondition>(pool).threshold, 5s);
    EXPECT_THAT(only<TxgCondition>(pool).pool, IsEmpty());
    EXPECT_EQ(pool.limit.by, LimitBy::Rule);
    EXPECT_THAT(only<TxgCondition>(rule_of("good-host.toml", "txg-often-slow")).pool, ElementsAre("tank", "r*"));

    const auto &disk = only<BlockIoCondition>(rule_of("good-host.toml", "slow-disk"));
    EXPECT_EQ(disk.slower_than, 1s);
    EXPECT_TRUE(disk.error && disk.writes && !disk.reads);
    EXPECT_THAT(disk.device, ElementsAre("sd*", "nvme0n1"));
    EXPECT_FALSE(only<BlockIoCondition>(rule_of("good-host.toml", "disk-error")).slower_than.has_value());
}

TEST(Conditions, Process) {
    const auto &sync = only<SyscallCondition>(rule_of("good-process.toml", "slow-sync"));
    EXPECT_THAT(sync.names, UnorderedElementsAre("fdatasync", "fsync", "sync", "syncfs", "close"))
        << "of a group what this kernel has";
    EXPECT_EQ(sync.slower_than, 100us);
    EXPECT_FALSE(sync.failed);
    const auto &failing = only<SyscallCondition>(rule_of("good-process.toml", "failing"));
    EXPECT_THAT(failing.errnos, ElementsAre(EMFILE, ENFILE, EAGAIN));
    EXPECT_FALSE(failing.slower_than.has_value());
    EXPECT_TRUE(only<SyscallCondition>(rule_of("good-process.toml", "any-failure")).failed);

    const auto &blocked = only<BlockedCondition>(rule_of("good-process.toml", "blocked"));
    EXPECT_TRUE(blocked.idle);
    EXPECT_EQ(blocked.when, When::Deadline);
    EXPECT_EQ(blocked.threshold, 10s);

    const auto &leak = only<MemoryCondition>(rule_of("good-process.toml", "leak"));
    EXPECT_EQ(leak.growth, 100u << 20);
    EXPECT_EQ(leak.within, 1min);
    EXPECT_FALSE(leak.rss_above.has_value());
    EXPECT_EQ(only<MemoryCondition>(rule_of("good-process.toml", "big")).rss_above, 2ull << 30);

    const auto nonzero = std::bitset<256>().set().reset(0);
    EXPECT_EQ(only<ExitCondition>(rule_of("good-process.toml", "failed")).status, nonzero);
    EXPECT_EQ(only<ExitCondition>(rule_of("good-process.toml", "nonzero")).status, nonzero);
    EXPECT_TRUE(only<ExitCondition>(rule_of("good-process.toml", "failed")).signals.none());
    EXPECT_TRUE(only<ExitCondition>(rule_of("good-process.toml", "killed")).status.none());
    EXPECT_EQ(only<ExitCondition>(rule_of("good-process.toml", "killed")).signals, std::bitset<65>().set(SIGKILL));
    const auto &some = only<ExitCondition>(rule_of("good-process.toml", "some-status")).status;
    EXPECT_EQ(some.count(), 1u + 5 + 1 + 56);
    EXPECT_TRUE(some.test(0) && some.test(3) && some.test(7) && some.test(9) && some.test(200) && some.test(255));
}

TEST(Conditions, WithoutALookupSystemCallsAreTakenAsWritten) {
    const auto rules =
        good_rules("[[rule]]\nname = \"r\"\non = \"syscall\"\nsyscall = [\"frobnicate\", \"@sync\"]\n", {});
    ASSERT_EQ(rules.size(), 1u);
    EXPECT_THAT(only<SyscallCondition>(rules[0]).names,
                testing::IsSupersetOf({"frobnicate", "msync", "sync_file_range"}));
}

TEST(Conditions, Tracepoint) {
    const auto &switched = only<TracepointCondition>(rule_of("good-tracepoint.toml", "uninterruptible"));
    EXPECT_EQ(switched.category, "sched");
    EXPECT_EQ(switched.name, "sched_switch");
    EXPECT_EQ(switched.filter_text, "prev_state == 2 && prev_comm ~ 'pg*'");
    EXPECT_TRUE(switched.filter.checked);
    EXPECT_TRUE(only<TracepointCondition>(rule_of("good-tracepoint.toml", "every-hit")).filter.empty());
    EXPECT_EQ(only<TracepointCondition>(rule_of("good-tracepoint.toml", "text-elsewhere")).filter_text,
              "filename == \"/usr/bin/café\" || filename ~ '*.sh'");
    const auto unchecked = good_rules(read(TEST_DATA "/rules/good-tracepoint.toml"), {});
    ASSERT_EQ(unchecked.size(), 4u);
    EXPECT_FALSE(only<TracepointCondition>(unchecked[0]).filter.checked);
    EXPECT_EQ(unchecked[0].text, rule_of("good-tracepoint.toml", "uninterruptible").text)
        << "the text does not depend on what is at hand";
}

TEST(Conditions, Composite) {
    const Rule &all = rule_of("good-composite.toml", "growing-in-reclaim");
    EXPECT_EQ(all.kind, "all");
    EXPECT_EQ(all.combine, Combine::All);
    EXPECT_EQ(all.within, 30s);
    ASSERT_EQ(all.conditions.size(), 2u);
    EXPECT_EQ(all.conditions[0].kind, "memory");
    EXPECT_EQ(std::get<MemoryCondition>(all.conditions[0].what).within, 1min);
    EXPECT_EQ(all.conditions[1].tally, (Tally{.count = 10, .window = 10s, .by = TallyBy::Host}));
    EXPECT_EQ(all.dump, (Dump{.signal = SIGABRT})) << "for the process that grows";
    EXPECT_EQ(all.limit.by, LimitBy::Exe);

    const Rule &tables = rule_of("good-composite.toml", "as-tables");
    ASSERT_EQ(tables.conditions.size(), 3u);
    EXPECT_EQ(tables.conditions[2].kind, "txg_sync");
    const Rule &any = rule_of("good-composite.toml", "either");
    EXPECT_EQ(any.combine, Combine::Any);
    EXPECT_EQ(any.within, 0ns);
    ASSERT_EQ(any.conditions.size(), 6u);
    EXPECT_FALSE(std::get<SignalCondition>(any.conditions[0].what).fatal);
    EXPECT_THAT(std::get<SignalCondition>(any.conditions[0].what).sender.comm, ElementsAre("watchdog"));
    EXPECT_EQ(rule_of("good-composite.toml", "the-host-in-trouble").limit.by, LimitBy::Rule);
}

TEST(Conditions, TextOfEachKind) {
    EXPECT_EQ(rule_of("good-design.toml", "reclaim-storm").text,
              R"([[rule]]
name = "reclaim-storm"
on = "reclaim"
enabled = true
reclaim = "any"
count = 1000
stalled = "900ms"
window = "30s"
by = "host"
limit = { cooldown = "0s", by = "rule" }
context = { stack = "32KiB", files = true, memory = true, host = true, environ = false, allocations = "pages" }
)");
    EXPECT_EQ(rule_of("good-composite.toml", "growing-in-reclaim").text,
              R"([[rule]]
name = "growing-in-reclaim"
on = "all"
enabled = true
within = "30s"
condition = [
    { on = "memory", growth = "100MiB", within = "1m" },
    { on = "reclaim", reclaim = "any", count = 10, window = "10s", by = "host" },
]
match = { exe = ["/usr/bin/*"] }
limit = { cooldown = "0s", by = "exe" }
context = { stack = "32KiB", files = true, memory = true, host = true, environ = false, allocations = "pages" }
dump = { signal = "SIGABRT", dry_run = false }
)");
    EXPECT_THAT(rule_of("good-process.toml", "some-status").text,
                HasSubstr("status = [0, \"3-7\", 9, \"200-255\"]\nsignals = [\"SIGKILL\", \"SIGTERM\"]\n"));
    EXPECT_THAT(
        rule_of("good-latency.toml", "two-places").text,
        HasSubstr("enter = \"uprobe:/usr/bin/app:begin_request+0x10\"\nleave = \"uprobe:/usr/bin/app:end_request+4\"\n"
                  "threshold = \"1d\"\nwhen = \"return\"\nmax_rate = 50000\nstalled = \"10s\"\nwindow = \"1m\"\n"
                  "by = \"process\"\n"));
    EXPECT_THAT(
        rule_of("good-composite.toml", "either").text,
        HasSubstr(
            "    { on = \"signal\", signals = [\"SIGUSR1\"], fatal = false, sender = { comm = [\"watchdog\"], self = "
            "false } },\n    { on = \"exit\", status = [\"3-7\"] },\n"));
}

std::string diagnosed(const std::string &lines, bool allow_dump) {
    Lookups lookups = fake_lookups();
    lookups.allow_dump = allow_dump;
    const auto parsed =
        parse_rules({{"d.toml", "[[rule]]\nname = \"r\"\non = \"blocked\"\nthreshold = \"1s\"\n" + lines}}, lookups);
    EXPECT_EQ(parsed.rules.size(), 1u) << "warned of, and kept";
    std::string out;
    for (const Diagnostic &d : parsed.diagnostics)
        out += d.text();
    return out;
}

TEST(Conditions, DumpIsWarnedOfWhereItIsNotAllowed) {
    EXPECT_EQ(diagnosed("dump = \"SIGABRT\"\n", true), "");
    EXPECT_EQ(
        diagnosed("dump = \"SIGABRT\"\n", false),
        "d.toml:5:1: warning: 'dump' has no effect: [safety] allow_dump is not on\n"
        "    5 | dump = \"SIGABRT\"\n"
        "      | ^~~~\n"
        "      = hint: set allow_dump = true in incidentd.toml, or dry_run = true here to see what it would do\n");
    EXPECT_EQ(diagnosed("dump = { signal = \"SIGABRT\", dry_run = true }\n", false), "");
}

TEST(Conditions, TracepointsOfModulesMayComeLater) {
    Lookups nothing_known = fake_lookups();
    nothing_known.tracepoints = {};
    const auto parsed = parse_rules(
        {{"t.toml", "[[rule]]\nname = \"r\"\non = \"tracepoint\"\ntracepoint = \"sched:moon\"\n"}}, nothing_known);
    EXPECT_TRUE(parsed.ok()) << "without a list it may be anything";
    EXPECT_EQ(parsed.diagnostics.size(), 1u);
    EXPECT_EQ(parsed.rules.size(), 1u);
}

TEST(Config, AccessAndHook) {
    const auto parsed = parse_config({"c.toml", read(TEST_DATA "/rules/config-good-access-hook.toml")});
    EXPECT_THAT(parsed.diagnostics, IsEmpty());
    EXPECT_EQ(parsed.config.access.group, "incident");
    EXPECT_EQ(parsed.config.hook.unit, "incident-hook@.service");
    EXPECT_EQ(parsed.config.hook.per_hour, 5u);
}

TEST(Config, StormAndDumps) {
    const auto parsed = parse_config({"c.toml", read(TEST_DATA "/rules/config-good-storm.toml")});
    EXPECT_THAT(parsed.diagnostics, IsEmpty());
    EXPECT_EQ(parsed.config.storm.full, 1u);
    EXPECT_EQ(parsed.config.storm.light, 0u);
    EXPECT_EQ(parsed.config.storm.window, 720h);
    EXPECT_EQ(parsed.config.safety.dumps_per_hour, 1000u);
    EXPECT_TRUE(parsed.config.safety.allow_dump);
}

} // namespace
} // namespace incident::rules
