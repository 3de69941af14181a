// Incidents in the making, without a kernel: what the recorder would say stands in a table, and time passes when the
// test says so.
#include "daemon/assemble/assembly.h"

#include "rules/files/parse.h"

#include <gmock/gmock.h>

#include <csignal>
#include <cstring>
#include <map>

namespace incident::daemon {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint32_t pid = 4'000'001, sibling = 4'000'002; // beyond pid_max: no process has these
constexpr std::uint64_t born_ns = 5'000, one_second = 1'000'000'000;
constexpr std::uint64_t code = 0x1000, stack = 0x7ffc0000; // the program that it executes

class TableRecorder final : public Recorded {
public:
    std::optional<capture::ThreadRings> read(std::uint32_t slot, std::uint64_t generation,
                                             const CallsWanted & /*wanted*/) const override {
        const auto found = slots_.find(slot);
        if (found == slots_.end() || found->second.generation != generation)
            return std::nullopt;
        return capture::ThreadRings{.slot = found->second};
    }
    std::vector<std::uint32_t> slots_of(const capture::ProcessRef &process) const override {
        std::vector<std::uint32_t> all;
        for (const auto &[slot, header] : slots_)
            if (capture::process_of(header) == process)
                all.push_back(slot);
        return all;
    }
    std::vector<bpf::tally> tallies(const capture::ProcessRef & /*process*/) const override { return {}; }
    std::vector<capture::Request> requests_in_flight(const capture::ProcessRef & /*process*/) const override {
        return {};
    }
    bpf::thread_slot header(std::uint32_t slot) const override {
        const auto found = slots_.find(slot);
        return found == slots_.end() ? bpf::thread_slot{} : found->second;
    }
    std::uint32_t slots() const override { return 16; }
    void release(std::uint32_t slot) override { released.push_back(slot); }
    std::optional<bpf::process_entry> process(std::uint32_t tgid) const override {
        const auto found = entries.find(tgid);
        return found == entries.end() ? std::nullopt : std::optional(found->second);
    }
    std::vector<std::uint32_t> processes() const override {
        std::vector<std::uint32_t> all;
        for (const auto &[tgid, entry] : entries)
            all.push_back(tgid);
        return all;
    }
    void forget_process(std::uint32_t tgid) override { forgotten.push_back(tgid); }
    std::optional<bpf::kept_death> kept_death(const capture::ProcessRef &process) const override {
        const auto found = kept.find(process.pid);
        return found == kept.end() ? std::nullopt : std::optional(found->second);
    }
    Status snapshot(std::uint32_t tgid) override {
        looked_at.push_back(tgid);
        return {};
    }
    void give_decision(const bpf::watch_key &, bool, std::uint64_t, std::uint32_t) override {}
    std::optional<TracepointName> tracepoint(std::uint32_t) const override { return std::nullopt; }
    LossCounts loss_counts() const override { return losses; }
    std::vector<capture::ProbeState> probes() const override { return {}; }

    void add_thread(std::uint32_t slot, std::uint32_t tid) {
        bpf::thread_slot header{};
        header.tgid = pid;
        header.tid = tid;
        header.process_start_boot_ns = born_ns;
        header.generation = slot + 100;
        header.state = bpf::SLOT_LIVE;
        slots_[slot] = header;
    }

    std::map<std::uint32_t, bpf::process_entry> entries;
    std::map<std::uint32_t, bpf::kept_death> kept;
    std::vector<std::uint32_t> released, forgotten, looked_at;
    LossCounts losses{};

private:
    std::map<std::uint32_t, bpf::thread_slot> slots_;
};

class HandClock final : public Clock {
public:
    std::uint64_t monotonic_ns() const override { return now_ns; }
    capture::Clocks read(std::string boot_id) const override {
        return {{now_ns}, {now_ns}, {now_ns}, std::move(boot_id), {}};
    }
    std::uint64_t now_ns = 100 * one_second;
};

class AssemblerTest : public testing::Test, protected AssemblyListener {
protected:
    void on_ready(Assembly assembly) override { ready.push_back(std::move(assembly)); }
    void before_rules(Occurrence &) override {}
    void on_fire(const rules::Decision &decision, Assembly &) override { fired.push_back(decision.rule->name); }
    void on_started(const rules::ProcessFacts &) override {}
    void on_watched(const capture::Subject &) override {}
    void on_permit(const bpf::trigger_head &) override {}
    bool on_other(const bpf::event_header &header, std::span<const std::uint8_t>) override {
        others.push_back(header.kind);
        return others_hold;
    }

    void begin(const std::string &rules_text) {
        auto parsed = rules::parse_rules({{"test.toml", rules_text}}, {});
        for (const auto &diagnostic : parsed.diagnostics)
            ADD_FAILURE() << diagnostic.text();
        rules.emplace(std::move(parsed.rules));
        rules->plan = plan_triggers(rules->rules(), true);
        rules->history.begin(rules->plan, rules->rules());
        assembler.emplace(recorder, *rules, facts, static_cast<AssemblyListener &>(*this), clock, os, "boot",
                          rules::Nanoseconds(std::chrono::seconds(2)));
    }

    template <typename Event> void take(const Event &event, std::size_t bytes = sizeof(Event)) {
        std::vector<std::uint8_t> copy(bytes);
        std::memcpy(copy.data(), &event, std::min(bytes, sizeof(event)));
        assembler->take(copy);
    }

    bpf::event_header head(bpf::event_kind kind, std::uint32_t tid = pid) const {
        return {kind, EVENT_LAYOUT, clock.now_ns, pid, tid, born_ns, born_ns, code, stack};
    }

    bpf::death_event death(int signal = SIGSEGV) const {
        bpf::death_event event{};
        event.h = head(bpf::EVENT_DEATH);
        event.number = signal;
        event.delivered = static_cast<__u32>(signal);
        event.fatal = 1;
        event.threads = 2;
        std::strcpy(event.comm, "worker");
        std::strcpy(event.leader_comm, "server");
        return event;
    }

    bpf::thread_event thread(std::uint32_t tid, std::uint32_t slot, bpf::thread_role role) const {
        bpf::thread_event event{};
        event.h = head(bpf::EVENT_THREAD, tid);
        event.role = role;
        event.slot = slot;
        event.generation = slot + 100;
        return event;
    }

    // Two threads with rings, and a process entry that says they have sent their events.
    void two_threads(std::uint32_t sent) {
        recorder.add_thread(0, pid);
        recorder.add_thread(1, sibling);
        bpf::process_entry entry{};
        entry.tgid = pid;
        entry.start_boot_ns = born_ns;
        entry.threads_sent = sent;
        recorder.entries[pid] = entry;
    }

    capture::OsRoots os{.proc = "/nonexistent",
                        .sys = "/nonexistent",
                        .cgroup = "/nonexistent",
                        .dev_kmsg = "/nonexistent",
                        .coredump = "/nonexistent"};
    TableRecorder recorder;
    HandClock clock;
    FactsCache facts{os};
    std::optional<RulesInForce> rules;
    std::optional<Assembler> assembler;
    std::vector<Assembly> ready;
    std::vector<std::string> fired;
    std::vector<std::uint32_t> others;
    bool others_hold = true;
};

const char *const crash_rule = "[[rule]]\nname = \"crash\"\non = \"signal\"\n";
const char *const slow_rule =
    "[[rule]]\nname = \"slow\"\non = \"syscall\"\nsyscall = \"openat\"\nslower_than = \"1ms\"\n";

TEST_F(AssemblerTest, ADeathIsReadyWhenAllItsThreadsAreThere) {
    begin(crash_rule);
    two_threads(2);
    take(death());
    take(thread(sibling, 1, bpf::ROLE_SIBLING));
    assembler->tend(clock.now_ns);
    EXPECT_THAT(ready, IsEmpty()) << "one thread is still to come";
    take(thread(pid, 0, bpf::ROLE_CRASHED));
    EXPECT_FALSE(assembler->tend(clock.now_ns));
    ASSERT_THAT(ready, SizeIs(1));
    const auto &process = ready[0].input.process;
    ASSERT_THAT(process.threads, SizeIs(2));
    EXPECT_EQ(process.threads[0].tid, pid) << "the crashed one stands first";
    EXPECT_EQ(process.threads[1].missing, "");
    EXPECT_FALSE(process.deadline_passed);
    EXPECT_EQ(ready[0].input.rule.name, "crash");
    EXPECT_THAT(fired, ElementsAre("crash"));
}

// A crashed thread's event with pages of the stack, each filled with its number.
std::vector<std::uint8_t> with_stack(bpf::thread_event event, const std::vector<std::uint64_t> &pages,
                                     std::uint32_t own = STACK_PAGES_MAX) {
    event.stack_address = stack;
    event.stack_length = static_cast<std::uint32_t>(pages.size() * STACK_PAGE);
    event.stack_own = own;
    for (std::size_t i = 0; i < pages.size(); ++i)
        event.stack_page[i] = stack + pages[i] * STACK_PAGE;
    std::vector<std::uint8_t> bytes(sizeof event);
    std::memcpy(bytes.data(), &event, sizeof event);
    for (const std::uint64_t page : pages)
        bytes.insert(bytes.end(), STACK_PAGE, static_cast<std::uint8_t>(page));
    return bytes;
}

TEST_F(AssemblerTest, PagesOfTheStackLieWhereTheyLay) {
    begin(crash_rule);
    two_threads(1);
    take(death());
    assembler->take(with_stack(thread(pid, 0, bpf::ROLE_CRASHED), {0, 1, 5, 300}));
    take(head(bpf::EVENT_GONE));
    ASSERT_THAT(ready, SizeIs(1));
    const auto &pieces = ready[0].input.process.threads[0].stack;
    ASSERT_THAT(pieces, SizeIs(3));
    EXPECT_EQ(pieces[0].address, stack);
    ASSERT_THAT(pieces[0].bytes, SizeIs(2 * STACK_PAGE));
    EXPECT_EQ(pieces[0].bytes.back(), 1);
    EXPECT_EQ(pieces[1].address, stack + 5 * STACK_PAGE);
    EXPECT_THAT(pieces[1].bytes, AllOf(SizeIs(STACK_PAGE), Each(5)));
    EXPECT_EQ(pieces[2].address, stack + 300 * STACK_PAGE);
    EXPECT_THAT(pieces[2].bytes, SizeIs(STACK_PAGE));
}

TEST_F(AssemblerTest, TheStackThatASignalsHandlerHasInterruptedIsAnother) {
    begin(crash_rule);
    two_threads(1);
    take(death());
    assembler->take(with_stack(thread(pid, 0, bpf::ROLE_CRASHED), {200, 201, 202, 10, 12}, 2));
    take(head(bpf::EVENT_GONE));
    ASSERT_THAT(ready, SizeIs(1));
    const auto &pieces = ready[0].input.process.threads[0].stack;
    ASSERT_THAT(pieces, SizeIs(4));
    EXPECT_THAT(pieces[0].bytes, SizeIs(2 * STACK_PAGE));
    EXPECT_FALSE(pieces[0].another);
    EXPECT_TRUE(pieces[1].another) << "also where it follows at once";
    EXPECT_EQ(pieces[2].address, stack + 10 * STACK_PAGE);
    EXPECT_FALSE(pieces[3].another);
}

TEST_F(AssemblerTest, OfTheStackARuleTakesTheBytesNearestToItsTop) {
    begin("[[rule]]\nname = \"crash\"\non = \"signal\"\ncontext.stack = \"9KiB\"\n");
    two_threads(1);
    take(death());
    assembler->take(with_stack(thread(pid, 0, bpf::ROLE_CRASHED), {0, 5, 6, 300}));
    take(head(bpf::EVENT_GONE));
    ASSERT_THAT(ready, SizeIs(1));
    const auto &pieces = ready[0].input.process.threads[0].stack;
    ASSERT_THAT(pieces, SizeIs(2));
    EXPECT_THAT(pieces[0].bytes, SizeIs(STACK_PAGE));
    EXPECT_THAT(pieces[1].bytes, SizeIs(5 * 1024));
}

TEST_F(AssemblerTest, AfterTheDeadlineWhatIsMissingIsSaid) {
    begin(crash_rule);
    two_threads(1);
    take(death());
    take(thread(pid, 0, bpf::ROLE_CRASHED));
    EXPECT_TRUE(assembler->tend(clock.now_ns));
    clock.now_ns += 2 * one_second;
    EXPECT_TRUE(assembler->tend(clock.now_ns)) << "not yet past it";
    clock.now_ns += 1;
    assembler->tend(clock.now_ns);
    ASSERT_THAT(ready, SizeIs(1));
    const auto &process = ready[0].input.process;
    EXPECT_TRUE(process.deadline_passed);
    ASSERT_THAT(process.threads, SizeIs(2));
    EXPECT_THAT(process.threads[1].missing, HasSubstr("had not passed signal delivery by the deadline"));
}

TEST_F(AssemblerTest, TheDeadlineBeginsAnewWithEachEventOfTheProcess) {
    begin(crash_rule);
    two_threads(0);
    take(death());
    clock.now_ns += 2 * one_second;
    take(thread(pid, 0, bpf::ROLE_CRASHED));
    clock.now_ns += 2 * one_second;
    EXPECT_TRUE(assembler->tend(clock.now_ns));
    EXPECT_THAT(ready, IsEmpty());
}

TEST_F(AssemblerTest, AThreadWhoseEventFoundNoRoomIsNotWaitedFor) {
    begin(crash_rule);
    two_threads(1);
    recorder.entries[pid].threads_unsent = 1;
    take(death());
    take(thread(pid, 0, bpf::ROLE_CRASHED));
    assembler->tend(clock.now_ns);
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_FALSE(ready[0].input.process.deadline_passed);
}

TEST_F(AssemblerTest, TheLastExitClosesIt) {
    begin(crash_rule);
    two_threads(1);
    take(death());
    take(thread(pid, 0, bpf::ROLE_CRASHED));
    take(head(bpf::EVENT_GONE));
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_TRUE(ready[0].input.process.gone);
    EXPECT_THAT(recorder.forgotten, ElementsAre(pid));
}

TEST_F(AssemblerTest, WhereNoRuleFiresTheRingsAreGivenBackAndNothingIsReady) {
    begin("[[rule]]\nname = \"aborts\"\non = \"signal\"\nsignals = [\"SIGABRT\"]\n");
    two_threads(2);
    take(death(SIGSEGV));
    take(thread(pid, 0, bpf::ROLE_CRASHED));
    take(thread(sibling, 1, bpf::ROLE_SIBLING));
    EXPECT_THAT(recorder.released, ElementsAre(0u, 1u));
    take(head(bpf::EVENT_GONE));
    EXPECT_THAT(ready, IsEmpty());
    EXPECT_EQ(assembler->counters().unmatched, 1u);
}

TEST_F(AssemblerTest, ADeathThatWasSentForIsNoIncident) {
    begin(crash_rule);
    two_threads(2);
    assembler->expect_death({pid, {born_ns}});
    take(death(SIGABRT));
    take(head(bpf::EVENT_GONE));
    EXPECT_THAT(ready, IsEmpty());
    take(death(SIGABRT)); // another process with that pid would have another start; this one was told of once
    take(head(bpf::EVENT_GONE));
    EXPECT_THAT(ready, SizeIs(1));
}

TEST_F(AssemblerTest, ALostDeathIsMadeFromTheProcessTable) {
    begin(crash_rule);
    two_threads(2);
    auto &entry = recorder.entries[pid];
    entry.death_ns = clock.now_ns;
    entry.death_signal = SIGSEGV;
    entry.death_tid = sibling;
    entry.death_address = 0x1234;
    entry.gone_ns = clock.now_ns + 1;
    assembler->find_lost(clock.now_ns);
    EXPECT_THAT(ready, IsEmpty()) << "its event may still be on the way";
    clock.now_ns += one_second;
    assembler->find_lost(clock.now_ns);
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_EQ(ready[0].input.process.event.number, SIGSEGV);
    EXPECT_EQ(ready[0].input.process.event.h.tid, sibling);
    EXPECT_EQ(ready[0].input.process.event.address, 0x1234u);
    EXPECT_TRUE(ready[0].input.process.gone);
    EXPECT_THAT(ready[0].input.process.threads, SizeIs(2)) << "their rings are still there";
}

TEST_F(AssemblerTest, OfALostDeathTheExecutableIsKnown) {
    begin(R"(
[[rule]]
name  = "crash"
on    = "signal"
match = { exe = ["/opt/app/server"], cgroup = ["/system.slice/app.service"] }
)");
    two_threads(2);
    auto &entry = recorder.entries[pid];
    entry.death_ns = clock.now_ns;
    entry.death_signal = SIGSEGV;
    entry.death_tid = sibling;
    entry.gone_ns = clock.now_ns + 1;
    auto &kept = recorder.kept[pid];
    kept.start_boot_ns = born_ns;
    kept.exe.parts = 3;
    const std::string names("server\0app\0opt\0", 15);
    names.copy(kept.exe.names, names.size());
    kept.exe.length = names.size();
    kept.cgroup_parts = 2;
    std::strcpy(kept.cgroup[0], "app.service");
    std::strcpy(kept.cgroup[1], "system.slice");
    std::strcpy(kept.leader_comm, "server");
    kept.gid = 7;
    kept.regs.ip = 0x1234;
    clock.now_ns += one_second;
    assembler->find_lost(clock.now_ns);
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_EQ(ready[0].facts.exe, "/opt/app/server");
    EXPECT_EQ(ready[0].facts.comm, "server");
    EXPECT_EQ(ready[0].input.process.event.gid, 7u);
    ASSERT_THAT(ready[0].input.process.threads, SizeIs(2));
    const auto &crashed = ready[0].input.process.threads[0];
    EXPECT_EQ(crashed.tid, sibling);
    ASSERT_TRUE(crashed.event);
    EXPECT_EQ(crashed.event->regs.ip, 0x1234u);
    EXPECT_TRUE(crashed.rings) << "its calls are still in its ring";
    EXPECT_TRUE(crashed.event->stack_unsent);
}

TEST_F(AssemblerTest, ADeathThatWasSentOrReadIsNotLost) {
    begin(crash_rule);
    two_threads(2);
    recorder.entries[pid].death_ns = clock.now_ns;
    recorder.entries[pid].death_event = 1;
    clock.now_ns += 10 * one_second;
    assembler->find_lost(clock.now_ns);
    EXPECT_THAT(ready, IsEmpty());
}

Occurrence slow_call(std::uint64_t t_ns) {
    Occurrence made;
    made.event.t_ns = t_ns;
    made.event.process.pid = pid;
    made.event.process.start_boot_ns = born_ns;
    made.event.process.comm = "server";
    made.event.what = rules::SyscallEvent{"openat", 3, 5'000'000};
    made.trigger = capture::SyscallTrigger{};
    made.subject = {bpf::EVENT_TRIGGER, EVENT_LAYOUT, t_ns, pid, sibling, born_ns, born_ns, code, stack};
    made.comm = "worker";
    return made;
}

TEST_F(AssemblerTest, OfAProcessThatLivesOnAllThreadsAreLookedAt) {
    begin(slow_rule);
    two_threads(0);
    assembler->occur(slow_call(clock.now_ns));
    EXPECT_THAT(recorder.looked_at, ElementsAre(pid));
    take(thread(pid, 0, bpf::ROLE_LIVING));
    take(thread(sibling, 1, bpf::ROLE_LIVING));
    assembler->tend(clock.now_ns);
    ASSERT_THAT(ready, SizeIs(1));
    ASSERT_THAT(ready[0].input.process.threads, SizeIs(2));
    EXPECT_EQ(ready[0].input.process.threads[0].tid, sibling) << "the thread that it happened in stands first";
    EXPECT_THAT(recorder.released, IsEmpty()) << "a living thread keeps its ring";
    EXPECT_THAT(recorder.forgotten, IsEmpty());
}

// Nobody knows whether the rule is about it: that is neither a match nor none.
TEST_F(AssemblerTest, ATriggerOfAProcessThatIsGoneAndWasNeverKnownIsCounted) {
    begin(std::string(slow_rule) + "match = { exe = [\"/usr/bin/server\"] }\n");
    assembler->occur(slow_call(clock.now_ns));
    EXPECT_EQ(assembler->counters().unknown, 1u);
    Occurrence known = slow_call(clock.now_ns);
    known.event.process.exe = "/usr/bin/other";
    assembler->occur(std::move(known));
    Occurrence of_idle_task = slow_call(clock.now_ns);
    of_idle_task.event.process.pid = 0;
    assembler->occur(std::move(of_idle_task));
    EXPECT_EQ(assembler->counters().unknown, 1u);
    EXPECT_EQ(assembler->counters().unmatched, 2u);
    EXPECT_THAT(ready, IsEmpty());
}

// What it executed is not known, but its name is.
TEST_F(AssemblerTest, AMatchThatDoesNotFireIsNotUnknown) {
    begin(std::string(slow_rule) + "match = { comm = [\"server\"] }\nlimit = { per_hour = 1, by = \"rule\" }\n");
    assembler->occur(slow_call(clock.now_ns));
    assembler->occur(slow_call(clock.now_ns));
    EXPECT_EQ(assembler->counters().unknown, 0u) << "held back by the limit";
    begin(std::string(slow_rule) + "match = { comm = [\"server\"] }\ncount = 3\nwindow = \"10s\"\n");
    assembler->occur(slow_call(clock.now_ns));
    EXPECT_EQ(assembler->counters().unknown, 0u) << "two more are needed";
}

// While somebody's events come faster than they can be handled, there is no end to wait for.
TEST_F(AssemblerTest, WhereEventsNeverEndTheDeadlineCloses) {
    begin(slow_rule);
    two_threads(0);
    assembler->occur(slow_call(clock.now_ns));
    take(thread(pid, 0, bpf::ROLE_LIVING));
    clock.now_ns += 2 * one_second;
    EXPECT_TRUE(assembler->tend(clock.now_ns, false));
    EXPECT_THAT(ready, IsEmpty()) << "the rest of its events may still wait";
    clock.now_ns += 1;
    EXPECT_FALSE(assembler->tend(clock.now_ns, false));
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_TRUE(ready[0].input.process.deadline_passed);
}

TEST_F(AssemblerTest, ADeathNeedsNoEndOfTheEvents) {
    begin(crash_rule);
    two_threads(2);
    take(death());
    take(thread(sibling, 1, bpf::ROLE_SIBLING));
    take(thread(pid, 0, bpf::ROLE_CRASHED));
    assembler->tend(clock.now_ns, false);
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_FALSE(ready[0].input.process.deadline_passed);
}

TEST_F(AssemblerTest, WhatTheProcessHasExecutedSinceIsNotLookedAt) {
    begin(slow_rule);
    two_threads(0);
    assembler->occur(slow_call(clock.now_ns));
    auto process = death(0);
    process.h.kind = bpf::EVENT_SNAPSHOT;
    process.fatal = 0;
    process.uid = 77;
    auto another = thread(sibling, 1, bpf::ROLE_LIVING);
    process.h.start_stack = another.h.start_stack = stack + 4096;
    another.regs.ip = 1;
    take(process);
    take(another);
    assembler->tend(clock.now_ns);
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_NE(ready[0].input.process.event.uid, 77u);
    for (const auto &each : ready[0].input.process.threads)
        EXPECT_FALSE(each.event) << each.tid;
    ASSERT_FALSE(ready[0].collected.results.empty());
    EXPECT_THAT(ready[0].collected.results.front().error + ready[0].collected.results.back().error,
                HasSubstr("executed another program since"));
}

TEST_F(AssemblerTest, AThreadsOwnCaptureIsWaitedForAndBetterThanALookFromOutside) {
    begin(slow_rule);
    two_threads(0);
    Occurrence captured = slow_call(clock.now_ns);
    captured.captured = true;
    assembler->occur(std::move(captured));
    auto outside = thread(sibling, 1, bpf::ROLE_LIVING), own = thread(sibling, 1, bpf::ROLE_TRIGGERED);
    outside.regs.ip = 1;
    own.regs.ip = 2;
    take(outside);
    assembler->tend(clock.now_ns);
    EXPECT_THAT(ready, IsEmpty());
    take(own);
    assembler->tend(clock.now_ns);
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_EQ(ready[0].input.process.threads[0].event->regs.ip, 2u);
}

TEST_F(AssemblerTest, TwoFiringsAboutOneThreadAreOneBundle) {
    begin(slow_rule);
    two_threads(0);
    for (int i = 0; i < 2; ++i) {
        Occurrence one = slow_call(clock.now_ns);
        one.captured = true;
        assembler->occur(std::move(one));
    }
    EXPECT_EQ(assembler->open(), 1u);
    EXPECT_EQ(assembler->counters().joined, 1u);
}

TEST_F(AssemblerTest, WhatTheKernelSideHasSignalledExpectsItsDeath) {
    begin(std::string(slow_rule) + crash_rule);
    two_threads(2);
    Occurrence dumped = slow_call(clock.now_ns);
    dumped.dumped = SIGABRT;
    assembler->occur(std::move(dumped));
    take(death(SIGABRT));
    take(head(bpf::EVENT_GONE));
    assembler->close_all();
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_EQ(ready[0].input.rule.name, "slow");
    EXPECT_EQ(ready[0].dumped, SIGABRT);
}

TEST_F(AssemblerTest, AnOomKillIsToldByTheKernelsChoiceWheneverItComes) {
    begin("[[rule]]\nname = \"oom\"\non = \"oom\"\n");
    two_threads(1);
    recorder.entries[pid].kernel_kill_ns = clock.now_ns;
    take(death(SIGKILL));
    take(thread(pid, 0, bpf::ROLE_CRASHED));
    assembler->tend(clock.now_ns);
    EXPECT_THAT(ready, IsEmpty()) << "whether it was the OOM killer is not known yet";
    bpf::oom_event chosen{};
    chosen.h = head(bpf::EVENT_OOM);
    chosen.victim = sibling; // the kernel names a thread
    take(chosen);
    take(head(bpf::EVENT_GONE));
    ASSERT_THAT(ready, SizeIs(1));
    EXPECT_EQ(ready[0].input.rule.name, "oom");
}

TEST_F(AssemblerTest, OneBundleSaysThatTheOomKillerChoseAndThatARuleAboutSigkillFired) {
    for (const bool chosen_first : {false, true}) {
        begin("[[rule]]\nname = \"killed\"\non = \"signal\"\nsignals = [\"SIGKILL\"]\n"
              "[[rule]]\nname = \"oom\"\non = \"oom\"\n");
        two_threads(1);
        recorder.entries[pid].kernel_kill_ns = clock.now_ns;
        bpf::oom_event chosen{};
        chosen.h = head(bpf::EVENT_OOM);
        chosen.victim = pid;
        if (chosen_first)
            take(chosen);
        take(death(SIGKILL));
        take(thread(pid, 0, bpf::ROLE_CRASHED));
        take(thread(sibling, 1, bpf::ROLE_SIBLING));
        assembler->tend(clock.now_ns);
        if (!chosen_first)
            take(chosen);
        take(head(bpf::EVENT_GONE));
        ASSERT_THAT(ready, SizeIs(1));
        EXPECT_EQ(ready[0].input.rule.name, "killed");
        EXPECT_EQ(ready[0].input.rule.kind, "oom");
        EXPECT_THAT(ready[0].input.rule.fired_too, ElementsAre("oom"));
        EXPECT_TRUE(std::holds_alternative<capture::OomTrigger>(ready[0].input.trigger));
        ready.clear();
    }
}

TEST_F(AssemblerTest, AKillThatWasNoOomKillIsNone) {
    begin("[[rule]]\nname = \"oom\"\non = \"oom\"\n");
    two_threads(1);
    recorder.entries[pid].kernel_kill_ns = clock.now_ns;
    take(death(SIGKILL));
    take(head(bpf::EVENT_GONE));
    EXPECT_THAT(ready, IsEmpty());
}

TEST_F(AssemblerTest, WhatIsLostWhileNothingIsOpenIsNotThisIncidents) {
    begin(crash_rule);
    two_threads(2);
    recorder.losses[bpf::LOSS_THREAD_EVENT] = 7;
    assembler->tend(clock.now_ns); // nothing is open
    take(death());
    recorder.losses[bpf::LOSS_THREAD_EVENT] = 9;
    take(head(bpf::EVENT_GONE));
    ASSERT_THAT(ready, SizeIs(1));
    ASSERT_THAT(ready[0].input.losses, SizeIs(1));
    EXPECT_EQ(ready[0].input.losses[0].count, 2u);
}

TEST_F(AssemblerTest, EventsOfAnotherLayoutAndShortOnesAreNone) {
    begin(crash_rule);
    two_threads(2);
    auto other = death();
    other.h.layout = EVENT_LAYOUT + 1;
    take(other);
    take(death(), sizeof(bpf::death_event) - 1);
    take(death(), 3);
    take(thread(pid, 0, bpf::ROLE_CRASHED), sizeof(bpf::thread_event) - 1);
    assembler->close_all();
    EXPECT_THAT(ready, IsEmpty());
}

TEST_F(AssemblerTest, WhatIsOfNoAssemblyIsHandedOnAndCountedWhereItsRulesAreGone) {
    begin(crash_rule);
    take(head(bpf::EVENT_TXG));
    EXPECT_EQ(assembler->counters().outdated, 0u);
    others_hold = false;
    take(head(bpf::EVENT_LATENCY));
    EXPECT_THAT(others, ElementsAre(bpf::EVENT_TXG, bpf::EVENT_LATENCY));
    EXPECT_EQ(assembler->counters().outdated, 1u);
}

} // namespace
} // namespace incident::daemon
