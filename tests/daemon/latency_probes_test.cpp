// LatencyProbes and OverdueScanner on a kernel side that only remembers what it was told.
#include "daemon/watch/latency/latency_probes.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <list>
#include <mutex>
#include <set>
#include <sstream>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using State = ProbeReport::State;

constexpr std::uint64_t probe_ms = 1'000'000, probe_second = 1'000'000'000;

struct Attachment {
    Recorder::UprobeRole role;
    std::uint64_t inode;
    FileOffset offset;
    std::optional<std::uint32_t> pid;
    std::uint32_t probe;
    std::uint64_t flags;
};

class FakeKernel : public LatencyKernel {
public:
    Result<LatencyKernel::Link> attach(Recorder::UprobeRole role, const Recorder::UprobePoint &point,
                                       std::uint32_t probe) override {
        struct stat status {};
        if (::stat(point.path.c_str(), &status) != 0)
            return fail(Error::system(point.path));
        const std::lock_guard lock(mutex);
        auto &places = role == Recorder::UprobeRole::CodeLoaded ? loaders : probe == EXIT_PROBE ? exits : live;
        places.push_back({role, status.st_ino, point.offset, point.pid, probe, point.flags});
        attached += &places == &live;
        auto at = std::prev(places.end());
        return LatencyKernel::Link(&*at, [this, at, &places](void *) {
            const std::lock_guard guard(mutex);
            places.erase(at);
        });
    }
    void set_probe(std::uint32_t probe, const bpf::probe_setting &setting) override { settings[probe] = setting; }
    bpf::probe_count probe_count(std::uint32_t probe) const override {
        const auto found = counts.find(probe);
        return found == counts.end() ? bpf::probe_count{} : found->second;
    }
    std::vector<ThreadCalls> threads(bool &is_busy) const override {
        is_busy = busy;
        return in_flight;
    }
    bool switches_stacks(std::uint32_t) const override { return false; }
    // Detaching happens in the background.
    std::vector<Attachment> attachments(std::size_t expected) {
        for (int i = 0; i < 1000; ++i) {
            {
                const std::lock_guard lock(mutex);
                if (live.size() == expected)
                    break;
            }
            ::usleep(1000);
        }
        const std::lock_guard lock(mutex);
        return {live.begin(), live.end()};
    }

    std::mutex mutex;
    std::list<Attachment> live, exits, loaders;
    int attached = 0;
    std::map<std::uint32_t, bpf::probe_setting> settings;
    std::map<std::uint32_t, bpf::probe_count> counts;
    std::vector<ThreadCalls> in_flight;
    bool busy = false;
};

const auto ignore = [](const OverdueCall &) {};
const auto everybody = [](const WantedProbe &) { return true; };
const auto nobody = [](const WantedProbe &) { return false; };

class Probes : public testing::Test {
protected:
    Probes() {
        ProbeEnd::resolve_patience = std::chrono::minutes(1);
        std::string name = (fs::temp_directory_path() / "latency_probes.XXXXXX").string();
        root = ::mkdtemp(name.data());
        binary = root / "program";
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
    }
    ~Probes() override {
        spdlog::set_default_logger(before);
        fs::remove_all(root);
    }
    // Lines about rates.
    std::size_t logged() {
        std::istringstream lines(log.str());
        std::size_t count = 0;
        for (std::string line; std::getline(lines, line);)
            count += line.find("max_rate") != std::string::npos;
        return count;
    }

    // A program with that function stands at `binary`, another file than before.
    void deploy(const std::string &function) {
        std::ofstream(root / "source.c") << "int " << function
                                         << "(int a) { return a; }\nint main(void) { return 0; }\n";
        const std::string command =
            "cc -O1 -fcf-protection=none -o " + (root / "new").string() + " " + (root / "source.c").string();
        ASSERT_EQ(std::system(command.c_str()), 0);
        fs::rename(root / "new", binary);
    }
    std::uint64_t inode() {
        struct stat status {};
        ::stat(binary.c_str(), &status);
        return status.st_ino;
    }
    WantedProbe wanted(const std::string &symbol, bool everyone = true) {
        WantedProbe probe;
        probe.rule = "slow";
        probe.enter.binary = binary;
        probe.enter.symbol = symbol;
        probe.enter.text = "uprobe:" + binary.string() + ":" + symbol;
        probe.threshold_ns = 20 * probe_ms;
        probe.everyone = everyone;
        return probe;
    }
    std::string reason() { return probes.reports().front().reason; }
    State state() { return probes.reports().front().state; }

    std::ostringstream log;
    std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
    fs::path root, binary;
    FakeKernel kernel;
    Detacher detacher;
    LatencyProbes probes{kernel, {}, UprobeAbilities{}};
};

TEST_F(Probes, AFunctionIsProbedLeavingSideFirst) {
    deploy("work");
    probes.set({wanted("work")}, 1 * probe_second);
    const auto live = kernel.attachments(2);
    ASSERT_THAT(live, SizeIs(2));
    EXPECT_EQ(live[0].role, Recorder::UprobeRole::LeaveCall);
    EXPECT_EQ(live[1].role, Recorder::UprobeRole::EnterCall);
    EXPECT_EQ(live[0].inode, inode());
    EXPECT_FALSE(live[0].pid);
    EXPECT_EQ(kernel.settings[live[0].probe].threshold_ns, 20 * probe_ms);
    EXPECT_EQ(kernel.settings[live[0].probe].since_ns, 1 * probe_second);
    ASSERT_THAT(probes.users(live[0].probe), SizeIs(1));
    EXPECT_NE(state(), State::Unavailable) << reason();
}

// Frames and events of a probe may outlive it by any number of reloads.
TEST_F(Probes, AnIdIsNeverAnothersAlsoWhenItsIndexIs) {
    std::set<std::uint32_t> ids;
    for (std::uint32_t i = 0; i < 3 * PROBES_MAX; ++i) {
        probes.set({wanted("work" + std::to_string(i))}, i * probe_second);
        std::size_t using_it = 0;
        for (const auto &[id, setting] : kernel.settings)
            using_it += probes.users(id).size();
        ASSERT_EQ(using_it, 1u);
        for (const auto &[id, setting] : kernel.settings)
            if (!probes.users(id).empty()) {
                EXPECT_EQ(setting.id, id);
                EXPECT_TRUE(ids.insert(id).second) << "the id of another probe";
            }
    }
}

TEST_F(Probes, ABinaryThatIsMissingIsProbedWhenItAppears) {
    probes.set({wanted("work")}, 0);
    EXPECT_EQ(state(), State::Unavailable);
    EXPECT_THAT(reason(), AllOf(HasSubstr(binary.string()), HasSubstr("No such file")));
    probes.wake(1 * probe_second, ignore);
    EXPECT_EQ(state(), State::Unavailable);
    deploy("work");
    probes.wake(2 * probe_second, ignore);
    EXPECT_NE(state(), State::Unavailable) << reason();
    EXPECT_THAT(kernel.attachments(2), SizeIs(2));
}

TEST_F(Probes, ASymbolThatIsMissingIsLookedForInTheNextBinary) {
    deploy("other");
    probes.set({wanted("work")}, 0);
    EXPECT_EQ(state(), State::Unavailable);
    EXPECT_THAT(reason(), AllOf(HasSubstr(binary.string() + ": work: no such function")));
    deploy("work");
    probes.process_seen(static_cast<std::uint32_t>(::getpid()), everybody,
                        100 * probe_ms); // no need to wait for the tick
    EXPECT_NE(state(), State::Unavailable) << reason();
}

TEST_F(Probes, AReplacedBinaryIsProbedBesideTheOldOne) {
    deploy("work");
    probes.set({wanted("work")}, 0);
    const auto old = inode();
    deploy("work");
    ASSERT_NE(inode(), old);
    probes.wake(1 * probe_second, ignore);
    const auto live = kernel.attachments(4);
    ASSERT_THAT(live, SizeIs(4));
    EXPECT_EQ(live[0].inode, old);
    EXPECT_EQ(live[2].inode, inode());
    // and one that no longer has the function is said to be so
    deploy("other");
    probes.wake(2 * probe_second, ignore);
    EXPECT_EQ(state(), State::Degraded);
    EXPECT_THAT(reason(), HasSubstr("no such function"));
}

TEST_F(Probes, ABinaryWrittenInPlaceIsProbedAnew) {
    deploy("work");
    probes.set({wanted("work")}, 0);
    const auto same = inode();
    std::string bytes;
    {
        std::ifstream in(binary, std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::ofstream(binary, std::ios::binary) << bytes << "longer";
    ASSERT_EQ(inode(), same);
    probes.wake(1 * probe_second, ignore);
    EXPECT_EQ(kernel.attached, 4);
    EXPECT_THAT(kernel.attachments(2), SizeIs(2));
}

TEST_F(Probes, OnlyMatchingProcessesAreProbed) {
    deploy("work");
    probes.set({wanted("work", false)}, 0);
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    EXPECT_THAT(reason(), testing::AnyOf(HasSubstr("no process matches"), HasSubstr("single-stepped")));
    probes.process_seen(1, nobody, 0);
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    probes.process_seen(1, everybody, 0);
    probes.process_seen(1, everybody, 0);
    auto live = kernel.attachments(2);
    ASSERT_THAT(live, SizeIs(2));
    EXPECT_EQ(live[0].pid, 1u);
    probes.process_gone(1);
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
}

TEST_F(Probes, TooManyProcessesAreProbedTogether) {
    deploy("work");
    probes.set({wanted("work", false)}, 0);
    for (std::uint32_t pid = 1; pid <= LatencyProbes::processes_max; ++pid)
        probes.process_seen(pid, everybody, 0);
    EXPECT_THAT(kernel.attachments(2 * LatencyProbes::processes_max), SizeIs(2 * LatencyProbes::processes_max));
    probes.process_seen(1000, everybody, 0);
    const auto live = kernel.attachments(2);
    ASSERT_THAT(live, SizeIs(2));
    EXPECT_FALSE(live[0].pid);
}

TEST_F(Probes, WhatIsCalledTooOftenIsLetGoForAMinute) {
    deploy("work");
    auto probe = wanted("work");
    probe.max_rate = 1000;
    probes.set({probe}, 0);
    const auto index = kernel.attachments(2).front().probe;
    for (std::uint64_t t = 1; t <= 2; ++t) {
        kernel.counts[index].calls += 5000;
        probes.wake(t * probe_second, ignore);
        EXPECT_THAT(reason(), testing::Not(HasSubstr("detached")));
    }
    kernel.counts[index].calls += 5000;
    probes.wake(3 * probe_second, ignore);
    EXPECT_EQ(state(), State::Unavailable) << "it does nothing";
    EXPECT_EQ(reason(), "detached: 5000 calls/s is above max_rate = 1000");
    EXPECT_EQ(probes.reports().front().off_since_ns, 3 * probe_second);
    EXPECT_EQ(probes.reports().front().off_until_ns, 63 * probe_second);
    EXPECT_EQ(logged(), 1u);
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    probes.wake(30 * probe_second, ignore);
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    probes.wake(64 * probe_second, ignore);
    EXPECT_THAT(kernel.attachments(2), SizeIs(2));
    EXPECT_EQ(kernel.settings[index].since_ns, 64 * probe_second); // what began before was not seen to end
    // far beyond: at once
    probes.wake(65 * probe_second, ignore);
    kernel.counts[index].calls += 50'000;
    probes.wake(66 * probe_second, ignore);
    EXPECT_THAT(reason(), HasSubstr("detached: 50000 calls/s"));
    EXPECT_EQ(probes.reports().front().off_since_ns, 3 * probe_second) << "it has not been well in between";
    EXPECT_EQ(logged(), 1u) << "once, however often it is tried in vain";
    for (std::uint64_t t = 130; t <= 133; ++t) {
        kernel.counts[index].calls += 10;
        probes.wake(t * probe_second, ignore);
    }
    EXPECT_NE(state(), State::Unavailable);
    EXPECT_EQ(logged(), 2u) << "and when it has come to stay";
}

TEST_F(Probes, OneThatIsHeldIsOffUntilItIsLetGo) {
    deploy("work");
    probes.set({wanted("work")}, 0);
    const auto index = kernel.attachments(2).front().probe;
    kernel.counts[index].calls = 7;
    auto loads = probes.loads();
    ASSERT_THAT(loads, SizeIs(1));
    EXPECT_TRUE(loads[0].attached);
    EXPECT_EQ(loads[0].calls, 7u);
    EXPECT_THAT(loads[0].users, SizeIs(1));
    probes.hold({loads[0].key}, probe_second);
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    EXPECT_EQ(state(), State::Unavailable);
    EXPECT_EQ(reason(), "detached: over the cost budget");
    probes.wake(600 * probe_second, ignore); // nobody but hold() brings it back: no tick …
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    probes.set({wanted("work")}, 601 * probe_second); // … and no reload
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    ASSERT_THAT(probes.loads(), SizeIs(1)) << "it can be tried again";
    EXPECT_FALSE(probes.loads()[0].attached);
    probes.hold({}, 602 * probe_second);
    EXPECT_THAT(kernel.attachments(2), SizeIs(2));
    EXPECT_EQ(kernel.settings[index].since_ns, 602 * probe_second); // what began before was not seen to end
    EXPECT_THAT(reason(), testing::Not(HasSubstr("budget")));
}

TEST(CallTraps, MoreOfTheDearerKindIsMore) {
    const CallTraps stepped{.stepped = 1}, others{.returned = 2, .emulated = 3};
    EXPECT_GT(stepped, others);
    EXPECT_EQ(stepped + others, (CallTraps{1, 2, 3}));
    EXPECT_EQ((TrapPrice{1000, 100, 10}.of(stepped + others)), 1230u);
}

TEST_F(Probes, ACallRunsIntoTheTrapsOfBothEnds) {
    deploy("work"); // "mov %edi,%eax; ret", or with frame pointers a push
    const ProbeTools tools{kernel, detacher, {}, UprobeAbilities{}, {}, std::make_shared<Sonames>()};
    const auto traps = [&](ProbeEnd::Kind kind) {
        ProbeEnd end(wanted("work").enter, kind, 0);
        auto file = open_on_host(binary);
        EXPECT_TRUE(file && end.add(std::move(*file), tools));
        return end.traps();
    };
    const CallTraps entry = traps(ProbeEnd::Kind::Enter), whole = traps(ProbeEnd::Kind::Function);
    EXPECT_EQ(entry.stepped + entry.emulated, 1u);
    EXPECT_EQ(entry.returned, 0u);
    EXPECT_EQ(whole, entry + CallTraps{.returned = 1});
    EXPECT_EQ(ProbeEnd(wanted("work").enter, ProbeEnd::Kind::Enter, 0).traps(), CallTraps{}) << "in no file yet";
}

TEST_F(Probes, TrapsAreMeasuredOnceOnTheDaemonItself) {
    probes.measure_traps();
    EXPECT_EQ(kernel.attached, 0) << "where no function is probed nothing is";
    probes.set({wanted("work")}, 0);
    ASSERT_EQ(kernel.attached, 0) << "its program is not there";
    probes.measure_traps();
    EXPECT_EQ(kernel.attached, 3);
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    probes.measure_traps();
    EXPECT_EQ(kernel.attached, 3);
}

TEST_F(Probes, AReloadTouchesOnlyWhatChanged) {
    deploy("work");
    probes.set({wanted("work")}, 0);
    auto again = wanted("work");
    again.threshold_ns = 5 * probe_ms;
    auto second_rule = wanted("work");
    second_rule.rule = "slower";
    second_rule.threshold_ns = 50 * probe_ms;
    second_rule.when = rules::When::Deadline;
    probes.set({again, second_rule, wanted("main")}, probe_second);
    const auto live = kernel.attachments(4);
    ASSERT_THAT(live, SizeIs(4));
    EXPECT_EQ(kernel.attached, 4); // two of "work", once; two of "main"
    EXPECT_EQ(kernel.settings[live[0].probe].threshold_ns, 5 * probe_ms);
    EXPECT_THAT(probes.users(live[0].probe), SizeIs(2));
    probes.set({}, 2 * probe_second);
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    EXPECT_EQ(probes.next_wake(), OverdueScanner::never);
}

TEST_F(Probes, ALibraryIsLookedForAmongTheMappings) {
    auto probe = wanted("getenv", false);
    probe.enter.binary = "libc.so.6";
    probes.set({probe}, 0);
    EXPECT_EQ(state(), State::Unavailable);
    EXPECT_THAT(reason(), HasSubstr("has mapped 'libc.so.6' yet"));
    const auto pid = static_cast<std::uint32_t>(::getpid());
    probes.process_seen(pid, everybody, 0);
    EXPECT_NE(state(), State::Unavailable) << reason();
    const auto live = kernel.attachments(2);
    ASSERT_THAT(live, SizeIs(2));
    EXPECT_EQ(live[0].pid, pid);
    probe.enter.binary = "libnothing.so.1";
    probe.enter.text = "other";
    probes.set({probe}, 0);
    probes.process_seen(pid, everybody, 0);
    EXPECT_EQ(probes.next_wake(), 20 * probe_ms); // it may not have been mapped yet
    probes.wake(20 * probe_ms, ignore);
    EXPECT_EQ(probes.next_wake(), 220 * probe_ms);
}

TEST_F(Probes, ALibraryIsKnownByWhatItCallsItself) {
    std::ofstream(root / "lib.c") << "int work(int a) { return a; }\n";
    const std::string library = (root / "libwork.so.1.2.13").string();
    ASSERT_EQ(
        std::system(
            ("cc -shared -fPIC -O1 -Wl,-soname,libwork.so.1 -o " + library + " " + (root / "lib.c").string()).c_str()),
        0);
    void *const loaded = ::dlopen(library.c_str(), RTLD_NOW);
    ASSERT_NE(loaded, nullptr) << ::dlerror();
    struct stat status {};
    ASSERT_EQ(::stat(library.c_str(), &status), 0);
    const auto pid = static_cast<std::uint32_t>(::getpid());
    for (const char *name : {"libwork.so.1", "libwork.so.1.2.13"}) {
        auto probe = wanted("work", false);
        probe.enter.binary = name;
        probe.enter.text = name;
        probes.set({probe}, 0);
        probes.process_seen(pid, everybody, 0);
        EXPECT_NE(state(), State::Unavailable) << name << ": " << reason();
        const auto live = kernel.attachments(2);
        ASSERT_THAT(live, SizeIs(2)) << name;
        EXPECT_EQ(live[0].inode, status.st_ino);
    }
    // upgraded while it runs: what is mapped is what is probed
    fs::remove(library);
    auto probe = wanted("work", false);
    probe.enter.binary = "libwork.so.1";
    probe.enter.text = "again";
    probes.set({probe}, 0);
    probes.process_seen(pid, everybody, 0);
    ASSERT_THAT(kernel.attachments(2), SizeIs(2));
    EXPECT_EQ(kernel.attachments(2)[0].inode, status.st_ino);
    ::dlclose(loaded);
}

TEST_F(Probes, ALibraryThatNobodyHasMappedMayBeMisspelt) {
    auto probe = wanted("getenv");
    probe.enter.binary = "libc.so.7";
    probes.set({probe}, 0);
    EXPECT_EQ(state(), State::Unavailable);
    EXPECT_THAT(reason(), HasSubstr("has mapped 'libc.so.7' yet; did you mean 'libc.so.6'?"));
    probe.enter.binary = probe.enter.text = "libpthraed.so.0";
    probes.set({probe}, 0);
    EXPECT_THAT(reason(), HasSubstr("did you mean 'libpthread.so.0'?"));
    probe.enter.binary = probe.enter.text = "libwork.so.1"; // an application's own: "librt.so.1" is not meant
    probes.set({probe}, 0);
    EXPECT_THAT(reason(), testing::EndsWith("has mapped 'libwork.so.1' yet"));
}

TEST_F(Probes, TheCopiesOfAFunctionAreProbedWithItAndSaid) {
    std::ofstream(root / "source.c")
        << "int work(int a) { return a; }\nint copy(int a) __asm__(\"work.constprop.0\");\n"
           "int copy(int a) { return a; }\nint main(void) { return 0; }\n";
    ASSERT_EQ(
        std::system(("cc -O0 -fcf-protection=none -o " + binary.string() + " " + (root / "source.c").string()).c_str()),
        0);
    probes.set({wanted("work")}, 0);
    const auto live = kernel.attachments(4);
    ASSERT_THAT(live, SizeIs(4));
    EXPECT_EQ(state(), State::Active) << reason();
    EXPECT_EQ(reason(), "work is probed with the copies that the compiler made of it: work.constprop.0");
}

TEST_F(Probes, WhatWasFoundOutOfAFileSaysNothingOfTheNext) {
    deploy("other");
    const ProbeTools tools{kernel, detacher, {}, UprobeAbilities{}, {}, std::make_shared<Sonames>()};
    ProbeEnd end(wanted("work").enter, ProbeEnd::Kind::Enter, 0);
    const auto add = [&] {
        auto file = open_on_host(binary);
        const auto added = end.add(std::move(*file), tools);
        return added ? std::string("found") : added.error().what;
    };
    const std::string why = add();
    EXPECT_THAT(why, HasSubstr("no such function"));
    EXPECT_EQ(add(), why);
    deploy("work"); // another file
    EXPECT_EQ(add(), "found");
}

// This process is the one that has mapped both.
TEST_F(Probes, ALibraryInAProcessThatLoadsWhatSwitchesStacksIsProbedAtItsRets) {
    const auto library = [&](const char *name, const char *source) {
        const fs::path path = root / name;
        std::ofstream(root / "source.c") << source;
        EXPECT_EQ(std::system(("cc -O1 -shared -fPIC -fcf-protection=none -o " + path.string() + " " +
                               (root / "source.c").string())
                                  .c_str()),
                  0);
        return path.string();
    };
    binary = library("work.so", "long work(long a) { return a + 1; }\n");
    const auto switching = library("switching.so", "__asm__(\"mov (%rsi), %rsp\\npop %rbx\\npop %rbp\\nret\");\n");
    void *const probed = ::dlopen(binary.c_str(), RTLD_NOW);
    ASSERT_TRUE(probed);
    const auto roles = [&] {
        std::set<Recorder::UprobeRole> all;
        for (const auto &one : kernel.attachments(2))
            all.insert(one.role);
        return all;
    };
    using Role = Recorder::UprobeRole;
    const std::set<Role> by_kernel{Role::EnterCall, Role::LeaveCall}, at_ret{Role::EnterCall, Role::LeaveAtRet};
    const auto pid = static_cast<std::uint32_t>(::getpid());
    probes.set({wanted("work")}, probe_second);
    probes.process_seen(pid, everybody, probe_second);
    EXPECT_EQ(roles(), by_kernel);
    EXPECT_THAT(kernel.loaders, Not(IsEmpty())) << "whose loads are told of";
    probes.code_loaded(pid, 2 * probe_second);
    EXPECT_EQ(roles(), by_kernel);

    void *const loaded = ::dlopen(switching.c_str(), RTLD_NOW);
    ASSERT_TRUE(loaded);
    probes.code_loaded(pid, 3 * probe_second);
    EXPECT_EQ(roles(), at_ret);
    EXPECT_THAT(reason(), HasSubstr("switching.so, which switches stacks, so its ret instructions"));
    EXPECT_GE(kernel.settings[kernel.live.front().probe].since_ns, 3 * probe_second)
        << "what was under way is not told";

    probes.set({}, 4 * probe_second);
    EXPECT_THAT(kernel.attachments(0), IsEmpty());
    probes.set({wanted("work")}, 5 * probe_second);
    EXPECT_EQ(roles(), at_ret) << "of a process that runs already";
    ::dlclose(loaded);
    ::dlclose(probed);
}

// Detaching happens in the background.
bool has_exits(FakeKernel &kernel, bool some) {
    for (int i = 0; i < 1000; ++i) {
        {
            const std::lock_guard lock(kernel.mutex);
            if (kernel.exits.empty() != some)
                return true;
        }
        ::usleep(1000);
    }
    return false;
}

TEST_F(Probes, ExitsAreFollowedOnlyWhereSomebodyTellsOfRunningCalls) {
    deploy("work");
    probes.set({wanted("work", false)}, 0);
    const auto pid = static_cast<std::uint32_t>(::getpid());
    probes.process_seen(pid, everybody, 0);
    EXPECT_THAT(kernel.exits, IsEmpty()) << "what returns proves itself";
    auto deadline = wanted("work", false);
    deadline.when = rules::When::Deadline;
    probes.set({deadline}, 0);
    probes.process_seen(pid, everybody, 0);
    ASSERT_TRUE(has_exits(kernel, true));
    for (const auto &exit : kernel.exits) {
        EXPECT_EQ(exit.probe, static_cast<std::uint32_t>(EXIT_PROBE));
        EXPECT_EQ(exit.pid, pid) << "nobody else pays";
    }
    probes.process_gone(pid);
    EXPECT_TRUE(has_exits(kernel, false));
    probes.process_seen(pid, everybody, 0);
    ASSERT_TRUE(has_exits(kernel, true));
    probes.set({wanted("work", false)}, 0);
    EXPECT_TRUE(has_exits(kernel, false)) << "they go with the rule";
}

TEST_F(Probes, ExitsAreFollowedBeforeTheFirstCallCanBegin) {
    deploy("work");
    auto deadline = wanted("work");
    deadline.when = rules::When::Deadline;
    probes.set({deadline}, 0);
    ASSERT_TRUE(has_exits(kernel, true)) << "in every process, as the function's probes are";
    EXPECT_FALSE(kernel.exits.front().pid);
    EXPECT_GE(std::ranges::count(kernel.exits, Recorder::UprobeRole::UnwindLands, &Attachment::role), 1);
}

TEST_F(Probes, TooManyExceptionsAreNotFollowedAndThatIsSaid) {
    deploy("work");
    auto deadline = wanted("work");
    deadline.when = rules::When::Deadline;
    probes.set({deadline}, 0);
    probes.wake(1 * probe_second, ignore);
    kernel.counts[EXIT_PROBE].calls = LatencyProbes::exits_max_rate * 2;
    probes.wake(2 * probe_second, ignore);
    EXPECT_TRUE(has_exits(kernel, false));
    EXPECT_THAT(reason(), HasSubstr("20000 exceptions and longjmps a second are too many to be followed"));
    probes.wake(3 * probe_second + LatencyProbes::retry_ns, ignore);
    EXPECT_TRUE(has_exits(kernel, true));
}

TEST_F(Probes, CallsLeftWithoutAReturnAreInTheReport) {
    deploy("work");
    probes.set({wanted("work")}, 0);
    const std::uint32_t index = kernel.attachments(2).front().probe;
    kernel.counts[index].missed = 5;
    kernel.counts[index].left = 3;
    kernel.counts[index].uncertain = 2;
    EXPECT_THAT(reason(), AllOf(HasSubstr("3 calls were left by an exception or longjmp: not timed"),
                                HasSubstr("2 calls ended without a return that was seen: not timed"),
                                HasSubstr("2 calls could not be proven to take so long: not told")));
}

TEST_F(Probes, WhatReturnedWhileTheProcessWasOfNoInterestIsNotTold) {
    deploy("work");
    probes.set({wanted("work", false), wanted("main", false)}, 0);
    const auto pid = static_cast<std::uint32_t>(::getpid());
    probes.process_seen(1, everybody, 1 * probe_second); // so that the probes stay
    probes.process_seen(pid, everybody, 1 * probe_second);
    const std::uint32_t index = kernel.attachments(8).front().probe;
    probes.process_seen(pid, nobody, 2 * probe_second);
    EXPECT_EQ(kernel.settings[index].since_ns, 1 * probe_second);
    probes.process_seen(pid, everybody, 3 * probe_second);
    EXPECT_EQ(kernel.settings[index].since_ns, 3 * probe_second);
}

// ---- calls in flight ------------------------------------------------------------------

class Overdue : public testing::Test {
protected:
    ThreadCalls &call(std::uint32_t slot, std::uint64_t start, std::uint32_t probe = 7) {
        ThreadCalls thread{slot, 100 + slot, 100 + slot, {}};
        thread.calls.generation = 1;
        thread.calls.depth = 1;
        thread.calls.frame[0].start_ns = start;
        thread.calls.frame[0].probe = probe;
        thread.calls.frame[0].sp = 0x7ffc00001000;
        kernel.in_flight.push_back(thread);
        return kernel.in_flight.back();
    }
    std::vector<std::uint64_t> scan(std::uint64_t now) {
        std::vector<std::uint64_t> fired;
        scanner.scan(kernel, now, [&](const OverdueCall &overdue) { fired.push_back(overdue.threshold_ns); });
        return fired;
    }
    void thread_file(std::uint32_t tid, const std::string &name, const std::string &text) {
        const fs::path directory = proc / std::to_string(tid) / "task" / std::to_string(tid);
        fs::create_directories(directory);
        std::ofstream(directory / name) << text;
    }
    Overdue() {
        std::string name = (fs::temp_directory_path() / "overdue.XXXXXX").string();
        proc = ::mkdtemp(name.data());
        os.proc = proc;
        scanner = OverdueScanner(os);
    }
    ~Overdue() override { fs::remove_all(proc); }

    fs::path proc;
    capture::OsRoots os;
    FakeKernel kernel;
    OverdueScanner scanner{{}};
};

TEST_F(Overdue, TheNextScanIsWhenSomethingCanBeDue) {
    EXPECT_EQ(scanner.next_scan(), OverdueScanner::never);
    scanner.watch({{7, {100 * probe_ms, 0}}});
    EXPECT_EQ(scanner.next_scan(), 0u);
    EXPECT_THAT(scan(1000 * probe_ms), IsEmpty());
    EXPECT_EQ(scanner.next_scan(), 1105 * probe_ms); // nothing in flight: whatever comes begins later
    call(1, 940 * probe_ms);
    EXPECT_THAT(scan(1000 * probe_ms), IsEmpty());
    EXPECT_EQ(scanner.next_scan(), 1045 * probe_ms);
    EXPECT_THAT(scan(1045 * probe_ms), ElementsAre(100 * probe_ms));
    EXPECT_EQ(scanner.next_scan(), 1150 * probe_ms);
    EXPECT_THAT(scan(1150 * probe_ms), IsEmpty()); // once a call
}

TEST_F(Overdue, EachThresholdFiresOnceForACall) {
    scanner.watch({{7, {100 * probe_ms, 0}}, {7, {10 * probe_ms, 0}}, {8, {1 * probe_ms, 0}}});
    call(1, 1000 * probe_ms);
    EXPECT_THAT(scan(1012 * probe_ms), ElementsAre(10 * probe_ms));
    EXPECT_THAT(scan(1101 * probe_ms), ElementsAre(100 * probe_ms));
    EXPECT_THAT(scan(1200 * probe_ms), IsEmpty());
    kernel.in_flight.front().calls.frame[0].start_ns = 1190 * probe_ms; // another call
    EXPECT_THAT(scan(1202 * probe_ms), ElementsAre(10 * probe_ms));
}

TEST_F(Overdue, PairsCountAndWhatBeganBeforeTheProbeDoesNot) {
    scanner.watch({{7, {10 * probe_ms, 1000 * probe_ms}}});
    auto &thread = call(1, 900 * probe_ms);
    thread.calls.pairs_used = 1u << 3;
    thread.calls.pair[3].probe = 7;
    thread.calls.pair[3].start_ns = 1001 * probe_ms;
    EXPECT_THAT(scan(1500 * probe_ms), ElementsAre(10 * probe_ms));
}

TEST_F(Overdue, AThreadThatCouldNotBeReadIsLookedAtAgainSoon) {
    scanner.watch({{7, {10 * probe_ms, 0}}});
    call(1, 1000 * probe_ms);
    EXPECT_THAT(scan(1020 * probe_ms), SizeIs(1));
    const auto kept = kernel.in_flight;
    kernel.in_flight.clear();
    kernel.busy = true;
    EXPECT_THAT(scan(1030 * probe_ms), IsEmpty());
    EXPECT_EQ(scanner.next_scan(), 1031 * probe_ms);
    kernel.busy = false;
    kernel.in_flight = kept;
    EXPECT_THAT(scan(1031 * probe_ms), IsEmpty()); // fired before
}

TEST_F(Overdue, ACallLeftByLongjmpIsNotOverdue) {
    scanner.watch({{7, {10 * probe_ms, 0}}});
    call(1, 1000 * probe_ms);
    thread_file(101, "syscall", "0 0x0 0x1 0x2 0x3 0x4 0x5 0x7ffc00002000 0x7f0000000000\n");
    EXPECT_THAT(scan(1020 * probe_ms), IsEmpty());
    EXPECT_EQ(scanner.left_unseen(), 1u);
    EXPECT_THAT(scan(1040 * probe_ms), IsEmpty());
    EXPECT_EQ(scanner.left_unseen(), 1u);
    call(2, 1000 * probe_ms);
    thread_file(102, "syscall", "0 0x0 0x1 0x2 0x3 0x4 0x5 0x7ffc00000ff8 0x7f0000000000\n");
    call(3, 1000 * probe_ms);
    thread_file(103, "syscall", "running\n");
    call(4, 1000 * probe_ms); // another stack
    thread_file(104, "syscall", "-1 0x7fff00000000 0x7f0000000000\n");
    EXPECT_THAT(scan(1020 * probe_ms), SizeIs(3));
}

TEST_F(Overdue, WhatIsNotProvenIsCountedAndNotTold) {
    scanner.watch({{7, {10 * probe_ms, 0}}});
    call(1, 1000 * probe_ms);
    call(2, 1000 * probe_ms);
    std::vector<std::uint32_t> fired;
    const auto look = [&](std::uint64_t now) {
        scanner.scan(
            kernel, now, [&](const OverdueCall &overdue) { fired.push_back(overdue.thread.tid); },
            [](const OverdueCall &overdue) { return overdue.thread.tid == 101 ? "its stack is gone" : ""; });
    };
    look(1020 * probe_ms);
    look(1040 * probe_ms);
    EXPECT_THAT(fired, ElementsAre(102u));
    EXPECT_EQ(scanner.doubted(7).calls, 1u);
    EXPECT_EQ(scanner.doubted(7).why, "its stack is gone");
    EXPECT_EQ(scanner.doubted(8).calls, 0u);
}

TEST_F(Overdue, WhereTheTimeWentSoFar) {
    auto &thread = call(1, 1000 * probe_ms);
    auto &frame = thread.calls.frame[0];
    frame.exec_ns = 50 * probe_ms;
    frame.run_delay_ns = 5 * probe_ms;
    thread_file(101, "schedstat", "60000000 8000000 12\n");
    const auto split = split_so_far(os, 101, 101, frame, 1100 * probe_ms);
    ASSERT_TRUE(split);
    EXPECT_EQ(split->running_ns, 10 * probe_ms);
    EXPECT_EQ(split->runnable_ns, 3 * probe_ms);
    EXPECT_EQ(split->blocked_ns, 87 * probe_ms);
    EXPECT_FALSE(split_so_far(os, 999, 999, frame, 1100 * probe_ms));
}

} // namespace
} // namespace incident::daemon
