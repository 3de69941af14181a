// The daemon's smaller parts, each alone: memory plan, losses in words, kernel symbols,
// the control socket and its lock.
#include "daemon/facts/facts_cache.h"
#include "daemon/record/kernel_symbols.h"
#include "daemon/record/recorder.h"
#include "daemon/service/control.h"
#include "daemon/service/status.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class Directory : public testing::Test {
protected:
    Directory() {
        std::string name = (fs::temp_directory_path() / "daemon_parts.XXXXXX").string();
        root = ::mkdtemp(name.data());
    }
    ~Directory() override { fs::remove_all(root); }
    fs::path root;
};

TEST(MemoryPlan, CountsEveryMapThatConfigurationSizes) {
    rules::Config::Record record;
    record.threads = 1000;
    record.processes = 100;
    record.ring_buffer = 1 << 20;
    const auto plan = plan_memory(record, 32767);
    EXPECT_EQ(plan.rings, 1000u * (448 + 2192));
    EXPECT_EQ(plan.calls_kept, record.calls);
    EXPECT_EQ(plan.facts, record.facts / sizeof(bpf::tally_set) * sizeof(bpf::tally_set));
    EXPECT_EQ(plan.thread_tables, 4u * 32768 + 8u * 16384);
    EXPECT_EQ(plan.events, 1u << 20);
    EXPECT_EQ(plan.total(), plan.calls_kept + plan.facts + plan.rings + plan.thread_tables + plan.processes +
                                plan.events + plan.calls);
}

// incidentd.toml(5): "a MiB holds some 4,000".
TEST(MemoryPlan, AMebibyteHoldsSomeFourThousandFacts) {
    rules::Config::Record record;
    record.facts = 1 << 20;
    EXPECT_NEAR(static_cast<double>(plan_memory(record, 32767).facts / sizeof(bpf::tally_set) * TALLY_WAYS), 4000, 100);
}

TEST(MemoryPlan, HasSomeSegmentsForEachThread) {
    rules::Config::Record record;
    record.threads = 100'000;
    EXPECT_EQ(segment_count(record), 400'000u);
    record.threads = 16;
    EXPECT_EQ(segment_count(record), record.calls / 2048);
}

TEST_F(Directory, AnEndThatWasNoStopIsKnown) {
    {
        auto lock = StateLock::take(root.string());
        ASSERT_TRUE(lock);
        EXPECT_FALSE(lock->before());
        ASSERT_TRUE(lock->begin());
    } // killed
    {
        auto lock = StateLock::take(root.string());
        ASSERT_TRUE(lock);
        ASSERT_TRUE(lock->before());
        EXPECT_FALSE(lock->before()->stopped);
        EXPECT_EQ(lock->before()->pid, static_cast<std::uint32_t>(::getpid()));
        EXPECT_NEAR(static_cast<double>(lock->before()->seen_s), static_cast<double>(std::time(nullptr)), 60);
    } // failed before it recorded anything
    {
        auto lock = StateLock::take(root.string());
        ASSERT_TRUE(lock);
        EXPECT_TRUE(lock->before());
        ASSERT_TRUE(lock->begin());
        lock->release();
    }
    const auto lock = StateLock::take(root.string());
    ASSERT_TRUE(lock);
    ASSERT_TRUE(lock->before());
    EXPECT_TRUE(lock->before()->stopped);
    EXPECT_EQ(lock->before()->pid, static_cast<std::uint32_t>(::getpid()));
}

TEST_F(Directory, WhatIsKnownOfAProcessHoldsWhenItHasEnded) {
    capture::OsRoots os;
    os.proc = root.string(); // nobody is there
    FactsCache cache(os);
    rules::ProcessFacts facts;
    facts.pid = 7, facts.start_boot_ns = 9, facts.exe = "/usr/bin/app";
    cache.learn({}, facts);
    EXPECT_EQ(cache.of({7, {9}}, std::nullopt, "app").exe, "/usr/bin/app");
    EXPECT_EQ(cache.of({7, {10}}, std::nullopt, "app").exe, "") << "another process with its id";
}

TEST_F(Directory, AProcessThatTakesAnotherUserIsReadAgain) {
    capture::OsRoots os;
    os.proc = root.string();
    const auto process = root / "7";
    std::filesystem::create_directories(process / "task/7");
    std::filesystem::create_symlink("/usr/bin/app", process / "exe");
    std::ofstream(process / "stat") << "7 (app) S 1 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 0 0 0\n";
    const auto runs_as = [&](unsigned uid) {
        std::ofstream(process / "status")
            << "Name:\tapp\nUid:\t" << uid << '\t' << uid << '\t' << uid << '\t' << uid << '\n';
    };
    std::optional<bpf::process_entry> entry(std::in_place);
    entry->execs = 1;
    entry->key.exe_inode = 5;
    FactsCache cache(os);
    runs_as(0);
    EXPECT_EQ(cache.of({7, {9}}, entry, "app").uid, 0u);
    runs_as(33);
    EXPECT_EQ(cache.of({7, {9}}, entry, "app").uid, 0u) << "nothing tells of it yet: it is not read each time";
    entry->key.uid = 33;
    EXPECT_EQ(cache.of({7, {9}}, entry, "app").uid, 33u);
    EXPECT_EQ(cache.of({7, {9}}, std::nullopt, "app").uid, 33u);
}

TEST_F(Directory, WhatItsLikeWereTellsNoMoreOfItThanTheirLikenessDoes) {
    capture::OsRoots os;
    os.proc = root.string(); // nobody is there any more
    FactsCache cache(os);
    rules::ProcessFacts facts;
    facts.pid = 7, facts.start_boot_ns = 9, facts.exe = "/usr/bin/app", facts.cgroup = "/a.service";
    facts.unit = "a.service";
    bpf::trigger_head trigger{};
    trigger.h.tgid = 8;
    trigger.h.process_start_boot_ns = 10;
    trigger.key.exe_inode = 1;
    cache.learn(trigger.key, facts);
    EXPECT_EQ(cache.of(trigger).exe, "/usr/bin/app");
    EXPECT_EQ(cache.of(trigger).cgroup, "") << "the same program, but in which cgroup the key does not say";
    EXPECT_EQ(cache.of(trigger).unit, "");
    trigger.h.tgid = 9;
    trigger.key.cgroup_set = 3;
    cache.learn(trigger.key, facts);
    EXPECT_EQ(cache.of(trigger).cgroup, "/a.service");
}

TEST(StatusLine, NamesWhatCannotDoAllItSays) {
    rules::Rule good, bad, off;
    good.name = "crash", bad.name = "txg-stall", off.name = "slow";
    good.conditions.resize(1), bad.conditions.resize(1), off.conditions.resize(1);
    bad.conditions[0].what = rules::TxgCondition{};
    off.enabled = false;
    rules::Engine engine({good, bad, off});
    const ConditionStates states{{"txg-stall:0", {"unavailable", "no zfs"}}};
    StatusLineInput input{.engine = engine, .families = {}, .conditions = states};
    EXPECT_EQ(status_line(input), "Recording: 1 rules active, 1 unavailable (txg-stall); 0 incidents");
    input.incidents.committed = 7, input.incidents.failed = 1, input.pending = 2, input.complaints = 3;
    EXPECT_EQ(status_line(input), "Recording: 1 rules active, 1 unavailable (txg-stall); 7 incidents, 2 under way, "
                                  "1 lost; 3 complaints about rule files: incidentctl status");
    input.reload_refused = true;
    EXPECT_THAT(status_line(input), HasSubstr("the last reload was refused"));
}

TEST(Losses, AreToldSinceAReadingAndByConcern) {
    LossCounts before{}, now{};
    before[bpf::LOSS_THREAD_EVENT] = 2;
    now[bpf::LOSS_THREAD_EVENT] = 5;
    now[bpf::LOSS_PATH_CUT] = 1;
    const auto capture = describe_losses(now, before, true);
    ASSERT_THAT(capture, SizeIs(1));
    EXPECT_EQ(capture[0].count, 3u);
    EXPECT_THAT(capture[0].where, HasSubstr("thread event"));
    EXPECT_THAT(describe_losses(now, {}, false), SizeIs(2));
    EXPECT_THAT(describe_losses(now, now, false), SizeIs(0));
}

class KernelNames : public Directory {
protected:
    KernelSymbols symbols() {
        return KernelSymbols({(root / "kallsyms").string(), (root / "modules").string(), [this] {
                                  ++asked;
                                  return code;
                              }});
    }
    void kallsyms(const std::string &more) {
        std::ofstream(root / "kallsyms") << "ffffffff81000100 T schedule\n"
                                            "ffffffff81000000 T _stext\n"
                                            "ffffffff81000000 t first\n"
                                            "ffffffff82000000 D some_data\n"
                                            "ffffffff81100000 T _etext\n"
                                            "not a line\n"
                                         << more;
    }
    std::vector<BpfCode> code;
    int asked = 0;
};

TEST_F(KernelNames, AreFoundByTheAddressBelow) {
    kallsyms("ffffffffc0000000 t spa_sync\t[zfs]\n");
    KernelSymbols table = symbols();
    EXPECT_EQ(table.name(0xffffffff8100012f), "schedule+0x2f");
    EXPECT_EQ(table.name(0xffffffff81000000), "first+0x0");
    EXPECT_EQ(table.name(0xffffffffc0000010), "spa_sync+0x10 [zfs]");
    EXPECT_EQ(table.name(0xffffffff81100000), "") << "beyond the kernel's text";
    EXPECT_EQ(table.name(0xffffffffc0010000), "") << "too far for a module's last function";
    EXPECT_EQ(table.name(0x1000), "");
    EXPECT_TRUE(
        KernelSymbols({(root / "none").string(), (root / "none").string(), [] { return std::vector<BpfCode>(); }})
            .empty());
}

TEST_F(KernelNames, OfBpfProgramsReachAsFarAsTheProgram) {
    kallsyms("ffffffffc0000000 t bpf_prog_0000000000000001_gone\t[bpf]\n"
             "ffffffffc0001000 t bpf_trampoline_7\t[bpf]\n");
    code = {{0xffffffffc0000000, 0x80, "bpf_prog_00000000000000aa_here"}};
    KernelSymbols table = symbols();
    EXPECT_EQ(table.name(0xffffffffc000007f), "bpf_prog_00000000000000aa_here+0x7f [bpf]");
    EXPECT_EQ(table.name(0xffffffffc0000080), "");
    EXPECT_EQ(table.name(0xffffffffc0001fff), "bpf_trampoline_7+0xfff [bpf]");
    EXPECT_EQ(table.name(0xffffffffc0002000), "") << "a trampoline has a page";
    EXPECT_EQ(asked, 1) << "once an incident";
}

TEST_F(KernelNames, OfWhatComesAndGoesAreThoseOfTheIncident) {
    kallsyms("ffffffffc0000000 t old_function\t[old]\n");
    std::ofstream(root / "modules") << "old 4096 0 - Live 0xffffffffc0000000\n";
    KernelSymbols table = symbols();
    EXPECT_EQ(table.name(0xffffffff81000100), "schedule+0x0");
    EXPECT_EQ(asked, 0) << "the kernel's own text stays";
    EXPECT_EQ(table.name(0xffffffffc0000004), "old_function+0x4 [old]");
    std::ofstream(root / "modules") << "old 4096 7 - Live 0xffffffffc0000000\n"; // used more often
    kallsyms("");
    table.next_incident();
    EXPECT_EQ(table.name(0xffffffffc0000004), "old_function+0x4 [old]") << "not read again";
    kallsyms("ffffffffc0000000 t new_function\t[new]\n");
    std::ofstream(root / "modules") << "new 4096 0 - Live 0xffffffffc0000000\n";
    code = {{0xffffffffc0100000, 0x10, "bpf_prog_00000000000000bb_new"}};
    table.next_incident();
    EXPECT_EQ(table.name(0xffffffffc0000004), "new_function+0x4 [new]");
    EXPECT_EQ(table.name(0xffffffffc0100008), "bpf_prog_00000000000000bb_new+0x8 [bpf]");
    kallsyms("ffffffffc0200000 t bpf_trampoline_9\t[bpf]\n");
    table.next_incident();
    EXPECT_EQ(table.name(0xffffffffc0200001), "bpf_trampoline_9+0x1 [bpf]") << "read at need";
}

TEST_F(Directory, OneDaemonAStateDirectory) {
    const auto first = StateLock::take(root.string());
    ASSERT_TRUE(first);
    const auto second = StateLock::take(root.string());
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().what, HasSubstr("another incidentd uses"));
}

class ControlSocket : public Directory {
protected:
    Control listen(
        std::chrono::milliseconds patience = Control::patience,
        std::function<std::string(const std::string &)> answer = [](const std::string &request) {
            return "got " + request;
        }) {
        auto control = Control::listen(root.string(), std::move(answer), patience);
        EXPECT_TRUE(control) << control.error().what;
        return std::move(*control);
    }
    UniqueFd connect(const fs::path &directory) {
        UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.sock", directory.c_str());
        EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr *>(&address), sizeof(address)), 0);
        return client;
    }
    UniqueFd connect() { return connect(root); }
    static void say(const UniqueFd &client, std::string_view text) {
        ASSERT_EQ(::send(client.get(), text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
    }
    // "" : nothing yet; "(closed)" when the other side has.
    static std::string heard(const UniqueFd &client) {
        char reply[4096] = {};
        const ssize_t got = ::read(client.get(), reply, sizeof(reply) - 1);
        return got > 0 ? reply : got == 0 ? "(closed)" : "";
    }
    static bool ready(const Control &control, int ms) {
        pollfd poll_for{control.fd(), POLLIN, 0};
        return ::poll(&poll_for, 1, ms) == 1;
    }
};

TEST_F(ControlSocket, AnswersAndIsRootsAlone) {
    // longer than sun_path, which is why it is bound through a descriptor
    const fs::path deep = root / std::string(100, 'd') / std::string(100, 'e');
    fs::create_directories(deep);
    auto control = Control::listen(deep.string(), [](const std::string &request) { return "got " + request; });
    ASSERT_TRUE(control) << control.error().what;
    EXPECT_EQ(fs::status(deep / "control.sock").permissions(), fs::perms(0600));
    const fs::path link = root / "l"; // a client's short way there
    fs::create_directory_symlink(deep, link);
    const UniqueFd client = connect(link);
    say(client, "hello\n");
    control->serve();
    EXPECT_EQ(heard(client), "got hello");
    EXPECT_EQ(heard(client), "(closed)");
    EXPECT_EQ(control->connections(), 0u);
}

TEST_F(ControlSocket, NobodyWaitsForOneWhoIsSlow) {
    auto control = listen();
    std::vector<UniqueFd> slow;
    for (int i = 0; i < 5; ++i) {
        slow.push_back(connect());
        say(slow.back(), "s");
        control.serve(); // would not return before they have said all
    }
    const UniqueFd client = connect();
    say(client, "status\n");
    control.serve();
    EXPECT_EQ(heard(client), "got status");
    for (const auto &one : slow)
        say(one, "low");
    control.serve();
    EXPECT_EQ(control.connections(), 5u);
    say(slow[3], "\n");
    control.serve();
    EXPECT_EQ(heard(slow[3]), "got slow");
    EXPECT_EQ(heard(slow[2]), "");
    ASSERT_EQ(::shutdown(slow[2].get(), SHUT_WR), 0); // says no more
    control.serve();
    EXPECT_EQ(heard(slow[2]), "got slow");
}

TEST_F(ControlSocket, WhileDescriptorsAreShortItRestsAndAnswersThen) {
    auto control = listen();
    const UniqueFd client = connect();
    say(client, "status\n");
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max}; // poll(2) of one needs one
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    control.serve();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_FALSE(ready(control, 0)) << "it would look again and again";
    EXPECT_TRUE(ready(control, 10'000)) << "of its own accord, some time later";
    control.serve();
    EXPECT_EQ(heard(client), "got status");
}

TEST_F(ControlSocket, ThereIsAnEndToPatience) {
    auto control = listen(std::chrono::milliseconds(1));
    const UniqueFd silent = connect();
    control.serve();
    ASSERT_TRUE(ready(control, 10'000)) << "nobody says anything: its clock does";
    while (control.connections())
        control.serve();
    EXPECT_EQ(heard(silent), "(closed)");
    EXPECT_FALSE(ready(control, 0)) << "nothing is left to do";
}

TEST_F(ControlSocket, TheOldestMakesRoomForTheNext) {
    auto control = listen();
    std::vector<UniqueFd> silent;
    for (std::size_t i = 0; i < 2 * Control::connections_max; ++i) {
        silent.push_back(connect());
        control.serve();
    }
    EXPECT_EQ(control.connections(), Control::connections_max);
    EXPECT_EQ(heard(silent.front()), "(closed)");
    EXPECT_EQ(heard(silent.back()), "");
    const UniqueFd client = connect();
    say(client, "status\n");
    control.serve();
    EXPECT_EQ(heard(client), "got status");
}

TEST_F(ControlSocket, ARequestAndAnAnswerMayBeLarge) {
    const std::string large(4u << 20, 'x');
    auto control = listen(Control::patience, [&](const std::string &) { return large; });
    const UniqueFd deaf = connect();                   // does not read
    say(deaf, std::string(Control::request_max, 'y')); // no end of line: as much as is taken
    control.serve();
    EXPECT_EQ(control.connections(), 1u) << "its answer waits for it";
    EXPECT_FALSE(ready(control, 0)) << "without keeping anybody busy";
    std::size_t all = 0;
    for (std::string part; (part = heard(deaf)) != "(closed)"; control.serve())
        all += part.size();
    EXPECT_EQ(all, large.size());
    EXPECT_EQ(control.connections(), 0u);
}

} // namespace
} // namespace incident::daemon
