#include "capture/collect/collect.h"
#include "capture/collect/hanging.h"
#include "capture/os/proc_stat.h"
#include "capture/os/unique_fd.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

namespace incident::capture {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t TICK = 10'000'000; // USER_HZ is 100 wherever Debian runs
constexpr std::uint64_t START = 123456 * TICK + 1234567;

// Only the tests of the deadline are about time; the machine may be busy.
CollectLimits unhurried_process() {
    CollectLimits limits;
    limits.deadline = std::chrono::seconds(60);
    return limits;
}

OsRoots tree(const std::string &name, const std::string &root = TEST_DATA "/proc-trees") {
    OsRoots os;
    os.proc = root + "/" + name + "/proc";
    os.cgroup = root + "/" + name + "/cgroup";
    return os;
}

const CollectorResult *result(const Collected &collected, const std::string &name) {
    for (const CollectorResult &each : collected.results)
        if (each.name == name)
            return &each;
    return nullptr;
}

std::string file(const Collected &collected, const std::string &path) {
    const std::string *bytes = collected.file(path);
    return bytes ? *bytes : "(no " + path + ")";
}

// A copy of the checked-in tree that a test may spoil.
class CollectSpoiled : public testing::Test {
protected:
    CollectSpoiled() {
        char path[] = "/tmp/incidentd-test-XXXXXX";
        root = ::mkdtemp(path);
        std::filesystem::copy(TEST_DATA "/proc-trees/unified", root + "/unified",
                              std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
    }
    ~CollectSpoiled() override { std::filesystem::remove_all(root); }
    std::string at(const std::string &below) const { return root + "/unified/proc/1234/" + below; }
    void write(const std::string &below, const std::string &text) const {
        std::ofstream(at(below), std::ios::binary) << text;
    }
    Collected collect(const CollectLimits &limits = unhurried_process()) const {
        Collected into;
        collect_process(tree("unified", root), {1234, {START}}, limits, into);
        return into;
    }
    std::string root;
};

TEST(CollectProcess, TakesEverythingAsItIsPrinted) {
    Collected into;
    collect_process(tree("unified"), {1234, {START}}, unhurried_process(), into);
    for (const CollectorResult &each : into.results) {
        if (each.name == "perf_map") // would be below its root, which this host does not have
            continue;
        EXPECT_TRUE(each.ok) << each.name << ": " << each.error;
        EXPECT_EQ(each.error, "") << each.name;
    }
    EXPECT_THAT(file(into, "process/maps"), HasSubstr("[stack]"));
    EXPECT_EQ(file(into, "process/cmdline"), std::string("/usr/sbin/webd\0--port\0008080\0", 27));
    EXPECT_EQ(file(into, "process/auxv").size(), 32u);
    EXPECT_EQ(file(into, "process/exe"), "/usr/sbin/webd (deleted)");
    EXPECT_EQ(file(into, "process/root"), "/srv/jail");
    EXPECT_EQ(file(into, "process/ns"), "net net:[4026532281]\npid pid:[4026531836]\n");
    EXPECT_EQ(file(into, "process/fds"),
              "{\"fd\":0,\"target\":\"/dev/null\",\"pos\":0,\"flags\":\"0100002\"}\n"
              "{\"fd\":3,\"target\":\"socket:[36721]\",\"pos\":0,\"flags\":\"02\"}\n"
              "{\"fd\":10,\"target\":\"/var/log/webd.log\",\"pos\":4711,\"flags\":\"0102001\"}\n");
    EXPECT_EQ(file(into, "process/sockets"),
              "{\"inode\":36721,\"target\":\"TCP 0.0.0.0:8080\",\"state\":\"LISTEN\"}\n");
    EXPECT_EQ(file(into, "process/comms"),
              "{\"tid\":1234,\"comm\":\"web) S 7 (\\nx\"}\n{\"tid\":1236,\"comm\":\"worker\"}\n");
    EXPECT_EQ(file(into, "cgroup/memory.max"), "62914560\n");
    EXPECT_EQ(file(into, "cgroup/pids.current"), "2\n");
    EXPECT_EQ(into.file("process/environ"), nullptr) << "off by default";
    for (const char *path :
         {"status", "limits", "io", "cgroup", "oom_score_adj", "stat", "mountinfo", "smaps_rollup", "cwd"})
        EXPECT_NE(into.file(std::string("process/") + path), nullptr) << path;
    EXPECT_EQ(into.results.front().name, "maps") << "the most perishable first";
}

TEST(CollectProcess, TakesTheEnvironmentWhenAsked) {
    Collected into;
    CollectLimits limits = unhurried_process();
    limits.environ = true;
    collect_process(tree("unified"), {1234, {START}}, limits, into);
    EXPECT_EQ(file(into, "process/environ"), std::string("SECRET=hunter2\0", 15));
}

TEST(CollectProcess, FindsVersionOneGroups) {
    Collected into;
    collect_process(tree("hybrid"), {77, {500 * TICK}}, unhurried_process(), into);
    EXPECT_EQ(file(into, "cgroup/memory.limit_in_bytes"), "62914560\n");
    EXPECT_EQ(file(into, "cgroup/memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    EXPECT_EQ(file(into, "cgroup/pids.current"), "4\n") << "mounted with another controller";
    EXPECT_EQ(result(into, "maps")->ok, false);
    EXPECT_EQ(result(into, "maps")->error, "maps: No such file or directory");
    EXPECT_TRUE(result(into, "cgroup_files")->ok);
}

TEST(CollectProcess, NothingOfAnotherProcess) {
    Collected into;
    collect_process(tree("unified"), {1234, {START + TICK}}, unhurried_process(), into);
    EXPECT_THAT(into.files, IsEmpty());
    ASSERT_EQ(into.results.size(), 1u);
    EXPECT_EQ(into.results[0].error, "pid 1234 is another process: it started at tick 123456, not 123457");
    into = {};
    collect_process(tree("unified"), {4321, {START}}, unhurried_process(), into);
    EXPECT_THAT(into.files, IsEmpty());
    EXPECT_THAT(into.results[0].error, HasSubstr("/4321: No such file or directory"));
}

TEST_F(CollectSpoiled, WhatBelongsToAReusedPidIsThrownAway) {
    // The pid changes hands while "status" is read: its FIFO is opened by this thread then.
    std::filesystem::remove(at("status"));
    ASSERT_EQ(::mkfifo(at("status").c_str(), 0600), 0);
    std::thread other([&] {
        const int fd = ::open(at("status").c_str(), O_WRONLY | O_CLOEXEC);
        std::filesystem::remove(at("stat"));
        write("stat", "1234 (other) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 999999 0 0\n");
        ::close(fd);
    });
    const Collected into = collect();
    other.join();
    EXPECT_THAT(into.files, IsEmpty());
    EXPECT_THAT(into.results, ElementsAre(Field(&CollectorResult::error, HasSubstr("another process"))));
}

TEST_F(CollectSpoiled, WhatItExecutesMeanwhileIsNotTaken) {
    const auto executes = [&](const char *code) {
        write("stat", "1234 (app) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 123456 4096 1 0 " + std::string(code) +
                          " 2000 140737000000000 0\n");
    };
    executes("1000");
    std::filesystem::remove(at("status"));
    ASSERT_EQ(::mkfifo(at("status").c_str(), 0600), 0);
    std::thread other([&] { // while "status" is read
        const int fd = ::open(at("status").c_str(), O_WRONLY | O_CLOEXEC);
        executes("5000");
        ::close(fd);
    });
    const Collected into = collect();
    other.join();
    EXPECT_THAT(file(into, "process/maps"), HasSubstr("[stack]")) << "read before";
    EXPECT_EQ(into.files.size(), 1u);
    EXPECT_EQ(result(into, "status")->error, "the process has executed another program since");
    EXPECT_EQ(result(into, "cmdline")->error, "the process has executed another program since");
}

TEST_F(CollectSpoiled, HostileNamesSurviveJson) {
    const std::string target = "/tmp/\n\"}\x1b[31m\xff\xfe\\";
    ASSERT_EQ(::symlink(target.c_str(), at("fd/11").c_str()), 0);
    write("task/1236/comm", "\xff\x01\n\n");
    const Collected into = collect();
    const std::string fds = file(into, "process/fds");
    EXPECT_EQ(std::ranges::count(fds, '\n'), 4);
    const std::string last = fds.substr(fds.rfind('\n', fds.size() - 2) + 1);
    const auto json = nlohmann::json::parse(last);
    EXPECT_EQ(json["target"], "/tmp/\n\"}\x1b[31m\ufffd\ufffd\\");
    EXPECT_FALSE(json.contains("pos")) << "no fdinfo";
    EXPECT_THAT(file(into, "process/comms"), HasSubstr("{\"tid\":1236,\"comm\":\"\ufffd\\u0001\\n\"}\n"));
}

TEST_F(CollectSpoiled, EveryCapIsSaid) {
    CollectLimits limits = unhurried_process();
    limits.file_cap = 60;
    limits.fds = 2;
    const Collected into = collect(limits);
    EXPECT_EQ(file(into, "process/maps").size(), 60u);
    EXPECT_TRUE(result(into, "maps")->ok);
    EXPECT_EQ(result(into, "maps")->error, "cut at 60 bytes");
    EXPECT_EQ(result(into, "fds")->error, "cut: 1 of 3 descriptors") << "60 bytes come first";
    limits = unhurried_process();
    limits.fds = 2;
    limits.threads = 1;
    EXPECT_EQ(result(collect(limits), "fds")->error, "cut: 2 of 3 descriptors");
    EXPECT_EQ(result(collect(limits), "comms")->error, "cut: 1 of 2 threads");
}

// /tmp is everybody's, and the name is known before the process starts.
TEST_F(CollectSpoiled, APerfMapOfAnotherUserIsNotRead) {
    if (::geteuid() != 0)
        GTEST_SKIP() << "needs root, to give files away";
    std::filesystem::remove(at("root"));
    EXPECT_FALSE(result(collect(), "perf_map")->ok) << "nobody could look for it";
    std::filesystem::create_directories(at("root") + "/tmp");
    EXPECT_FALSE(result(collect(), "perf_map")->ok) << "nor without its own pid";
    write("status", file(collect(), "process/status") + "NSpid:\t1234\t7\n");
    const std::string map = at("root") + "/tmp/perf-7.map";
    EXPECT_TRUE(result(collect(), "perf_map")->ok) << "there is none";
    std::ofstream(map) << "1000 10 name\n";
    for (const uid_t uid : {33u, 34u, 0u}) { // as its status has them, and root
        ASSERT_EQ(::chown(map.c_str(), uid, 0), 0);
        EXPECT_EQ(file(collect(), "process/perf_map"), "1000 10 name\n") << uid;
    }
    ASSERT_EQ(::chown(map.c_str(), 3, 0), 0); // of which 33 and 34 begin
    Collected into = collect();
    EXPECT_EQ(into.file("process/perf_map"), nullptr);
    EXPECT_FALSE(result(into, "perf_map")->ok);
    EXPECT_EQ(result(into, "perf_map")->error, "tmp/perf-7.map: of uid 3, not of the process's user");
    ASSERT_EQ(::chown(map.c_str(), 0, 0), 0);
    std::filesystem::create_hard_link(map, map + ".too");
    EXPECT_THAT(result(collect(), "perf_map")->error, HasSubstr("has other names"));
    std::filesystem::remove(map);
    std::filesystem::create_symlink(map + ".too", map);
    into = collect();
    EXPECT_EQ(into.file("process/perf_map"), nullptr);
    EXPECT_FALSE(result(into, "perf_map")->ok);
}

TEST_F(CollectSpoiled, AProcessWithoutMemoryIsNotCollectedAsEmpty) {
    write("maps", "");
    const Collected into = collect();
    EXPECT_FALSE(result(into, "maps")->ok);
    EXPECT_EQ(into.file("process/maps"), nullptr);
    EXPECT_TRUE(result(into, "status")->ok);
}

TEST_F(CollectSpoiled, AReadThatHangsIsLeftBehind) {
    std::filesystem::remove(at("cmdline"));
    ASSERT_EQ(::mkfifo(at("cmdline").c_str(), 0600), 0); // open() waits for a writer
    CollectLimits limits;
    limits.deadline = std::chrono::milliseconds(500);
    const auto start = std::chrono::steady_clock::now();
    const Collected into = collect(limits);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_TRUE(result(into, "maps")->ok) << "what came before it is kept";
    EXPECT_EQ(result(into, "cmdline")->error, "did not return within 500 ms: stuck in the kernel");
    EXPECT_EQ(result(into, "fds")->error, "not begun: \"cmdline\" did not return");
    EXPECT_EQ(into.results.size(), 22u) << "none is passed over in silence";
    ::close(::open(at("cmdline").c_str(), O_WRONLY | O_CLOEXEC)); // lets it go
}

// What hangs on one user's processes takes nothing from another's.
TEST_F(CollectSpoiled, EachUserMayMakeSoManyHang) {
    CollectLimits limits;
    limits.deadline = std::chrono::milliseconds(1);
    limits.uid = 7;
    const auto process = [&](std::uint32_t pid) { return root + "/unified/proc/" + std::to_string(pid); };
    const auto is_refused = [&](std::uint32_t pid) {
        Collected into;
        collect_process(tree("unified", root), {pid, {START}}, limits, into);
        return result(into, "maps")->error == "not begun: too many earlier collectors hang on this process or its user";
    };
    std::vector<std::uint32_t> pids;
    for (std::uint32_t pid = 2000; pid < 2010; ++pid) {
        std::filesystem::create_directory(process(pid));
        ASSERT_EQ(::mkfifo((process(pid) + "/stat").c_str(), 0600), 0); // open() waits for a writer
        pids.push_back(pid);
    }
    EXPECT_EQ(std::ranges::count_if(pids, is_refused), 2);
    EXPECT_TRUE(is_refused(1234)) << "of the same user, though nothing hangs on it";
    limits = unhurried_process();
    limits.uid = 8;
    EXPECT_NE(collect(limits).file("process/maps"), nullptr);
    EXPECT_TRUE(result(collect(limits), "stat")->ok);
    limits.uid = 7;
    bool taken = false; // and those of the first user are, when the readers have returned
    for (int i = 0; i < 1000 && !taken; ++i) {
        for (const std::uint32_t pid : pids)
            ::close(::open((process(pid) + "/stat").c_str(), O_RDWR | O_CLOEXEC));
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        taken = !is_refused(1234);
    }
    EXPECT_TRUE(taken);
}

TEST(HangingReaders, AreCountedByProcessUserAndHost) {
    Hanging hanging;
    const auto of = [](std::uint32_t pid, std::uint32_t uid) { return Subject{{pid, {1}}, uid}; };
    const auto fill = [&](const Subject &subject) {
        int added = 0;
        for (; !hanging.full(subject); ++added)
            hanging.add(subject);
        return added;
    };
    EXPECT_EQ(fill(of(1, 7)), Hanging::process_max);
    EXPECT_EQ(fill({{1, {2}}, 7}), Hanging::process_max) << "the pid is another process's now";
    EXPECT_EQ(fill(of(2, 7)) + fill(of(3, 7)), Hanging::user_max - 2 * Hanging::process_max);
    EXPECT_EQ(fill(of(4, 7)), 0);
    EXPECT_EQ(hanging.of_user(of(4, 7)), Hanging::user_max);
    EXPECT_EQ(fill(of(4, 8)), Hanging::process_max);
    EXPECT_EQ(fill({}), Hanging::host_max) << "of no process";
    int all = Hanging::user_max + Hanging::process_max;
    for (std::uint32_t uid = 100; uid < 200; ++uid)
        all += fill(of(uid, uid));
    EXPECT_EQ(all, Hanging::users_max);
    for (int i = 0; i < Hanging::process_max; ++i)
        hanging.remove(of(1, 7));
    EXPECT_EQ(fill(of(5, 7)), Hanging::process_max);
}

TEST_F(CollectSpoiled, NotSoManyAreLeftBehindThatTheyHarm) {
    std::filesystem::rename(at("stat"), at("whole"));
    ASSERT_EQ(::mkfifo(at("stat").c_str(), 0600), 0);
    CollectLimits limits;
    limits.deadline = std::chrono::milliseconds(1);
    int refused = 0;
    for (int i = 0; i < 10; ++i)
        refused += result(collect(limits), "maps")->error ==
                   "not begun: too many earlier collectors hang on this process or its user";
    EXPECT_GE(refused, 8);
    // And they are counted down when they return.
    std::filesystem::rename(at("stat"), at("fifo"));
    std::filesystem::rename(at("whole"), at("stat"));
    Collected into;
    for (int i = 0; i < 1000 && !into.file("process/maps"); ++i) {
        ::close(::open(at("fifo").c_str(), O_RDWR | O_CLOEXEC)); // lets those waiting in open() go
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        into = collect();
    }
    EXPECT_NE(into.file("process/maps"), nullptr);
}

// The fake against the real thing.
class CollectLive : public testing::Test {
protected:
    CollectLive() {
        int ready[2];
        EXPECT_EQ(::pipe2(ready, O_CLOEXEC), 0);
        child = ::fork();
        if (child == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::prctl(PR_SET_NAME, "a) S 1 (b");
            std::thread([fd = ready[1]] {
                ::prctl(PR_SET_NAME, "second");
                (void)!::write(fd, "x", 1);
                ::pause();
            }).detach();
            ::pause();
        }
        ::close(ready[1]);
        char byte;
        EXPECT_EQ(::read(ready[0], &byte, 1), 1);
        ::close(ready[0]);
        std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
        std::string text((std::istreambuf_iterator<char>(stat)), {});
        start = parse_proc_stat(text)->start_ticks * TICK;
    }
    ~CollectLive() override {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    pid_t child;
    std::uint64_t start;
};

TEST_F(CollectLive, AllThereIsToKnow) {
    Collected into;
    collect_process({}, {static_cast<std::uint32_t>(child), {start}}, unhurried_process(), into);
    for (const CollectorResult &each : into.results)
        EXPECT_TRUE(each.ok || each.name == "cgroup_files") // there may be no cgroups where this runs
            << each.name << ": " << each.error;
    EXPECT_THAT(file(into, "process/maps"), HasSubstr("[stack]"));
    EXPECT_THAT(file(into, "process/fds"), HasSubstr("{\"fd\":0,\"target\":"));
    EXPECT_THAT(file(into, "process/comms"), AllOf(HasSubstr("\"a) S 1 (b\""), HasSubstr("\"second\"")));
    EXPECT_THAT(file(into, "process/ns"), HasSubstr("pid pid:["));
    EXPECT_THAT(into.results, Contains(Field(&CollectorResult::us, testing::Gt(0u))));
}

// As many as are allowed here; for more, the machine is too fast or too slow.  See tests/vm/cases/descriptors.sh.
TEST(CollectProcess, ManyDescriptorsAreListedAsLongAsThereIsTime) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit more{std::min<rlim_t>(before.rlim_max, 50'000), before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &more), 0);
    std::vector<UniqueFd> many;
    while (UniqueFd next{::open("/dev/null", O_RDONLY | O_CLOEXEC)})
        many.push_back(std::move(next));
    many.resize(many.size() - 16);
    const auto own = identify({}, static_cast<std::uint32_t>(::getpid()));
    ASSERT_TRUE(own);
    for (const int deadline_ms : {2, 10, 60'000}) {
        CollectLimits limits;
        limits.deadline = std::chrono::milliseconds(deadline_ms);
        Collected into;
        collect_process({}, {static_cast<std::uint32_t>(::getpid()), {own->start_ticks * TICK}}, limits, into);
        const CollectorResult *fds = result(into, "fds");
        ASSERT_NE(fds, nullptr);
        const auto listed = static_cast<std::size_t>(std::ranges::count(file(into, "process/fds"), '\n'));
        if (deadline_ms == 60'000) {
            EXPECT_EQ(fds->error, "");
            EXPECT_GT(listed, many.size());
        } else if (fds->ok && !fds->error.empty()) {
            EXPECT_THAT(fds->error, testing::StartsWith("cut: " + std::to_string(listed) + " of "));
        }
    }
    many.clear();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST_F(CollectLive, NothingOfAnotherProgram) {
    const ProcessRef process{static_cast<std::uint32_t>(child), {start}};
    const Program program = program_of({}, process);
    ASSERT_TRUE(program.known());
    Collected into;
    collect_process({}, process, unhurried_process(), into, {program, false});
    EXPECT_NE(into.file("process/cmdline"), nullptr);
    into = {};
    collect_process({}, process, unhurried_process(), into, {{program.start_code, program.start_stack + 16}, false});
    EXPECT_THAT(into.files, IsEmpty());
    ASSERT_EQ(into.results.size(), 1u);
    EXPECT_EQ(into.results[0].error, "the process has executed another program since");
}

// A program that is being loaded has mappings and an executable already, and its stack's address is not set yet.
TEST(CollectProgram, OneThatIsBeingLoadedIsNoProgram) {
    ProcStat stat;
    EXPECT_FALSE(program_of(stat).known()) << "no memory";
    stat.memory = 4096;
    EXPECT_TRUE(program_of(stat).known());
    EXPECT_FALSE(program_of(stat).may_be({0x1000, 0x2000}));
    stat.start_code = 1; // not shown to this process
    EXPECT_FALSE(program_of(stat).known());
}

TEST_F(CollectLive, Identify) {
    const auto identity = identify({}, static_cast<std::uint32_t>(child));
    ASSERT_TRUE(identity) << identity.error().what;
    EXPECT_EQ(identity->comm, "a) S 1 (b");
    EXPECT_EQ(identity->start_ticks * TICK, start);
    EXPECT_EQ(identity->exe, std::filesystem::read_symlink("/proc/self/exe"));
    EXPECT_THAT(identity->cmdline, HasSubstr("test"));
    EXPECT_EQ(identity->uid, ::geteuid());
    EXPECT_EQ(identity->program, program_of({}, {static_cast<std::uint32_t>(child), {start}}));
}

TEST_F(CollectLive, OfADeadProcessNothingButTheReason) {
    ::kill(child, SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
    Collected into;
    CollectLimits limits = unhurried_process();
    limits.environ = true;
    collect_process({}, {static_cast<std::uint32_t>(child), {start}}, limits, into);
    for (const char *name : {"maps", "auxv", "cmdline", "environ", "smaps_rollup"})
        EXPECT_FALSE(result(into, name)->ok) << name;
    for (const char *name : {"maps", "cmdline"}) // the others cannot be opened any more
        EXPECT_THAT(result(into, name)->error, HasSubstr("no memory")) << name;
    EXPECT_FALSE(result(into, "fds")->ok);
    EXPECT_EQ(result(into, "fds")->error, "fd: empty, the process has no descriptors any more");
    EXPECT_EQ(into.file("process/fds"), nullptr);
    EXPECT_TRUE(result(into, "status")->ok) << "a zombie still has it";
}

// Empty is also what a living process may have.
TEST_F(CollectSpoiled, NoDescriptorsAndNoEnvironment) {
    for (const char *directory : {"fd", "fdinfo"})
        for (const auto &entry : std::filesystem::directory_iterator(at(directory)))
            std::filesystem::remove(entry.path());
    write("environ", "");
    CollectLimits limits = unhurried_process();
    limits.environ = true;
    const Collected into = collect(limits);
    EXPECT_TRUE(result(into, "fds")->ok);
    EXPECT_EQ(file(into, "process/fds"), "");
    EXPECT_TRUE(result(into, "environ")->ok);
    EXPECT_EQ(file(into, "process/environ"), "");
}

TEST_F(CollectSpoiled, DescriptorsLetGoWhileTheyAreListed) {
    std::ofstream(at("status"), std::ios::app) << "FDSize:\t0\n";
    EXPECT_EQ(result(collect(), "fds")->error, "") << "each was read before";
    std::ofstream(at("fd/11")) << "no link, as one that is closed meanwhile";
    const Collected into = collect();
    EXPECT_TRUE(result(into, "fds")->ok);
    EXPECT_EQ(result(into, "fds")->error, "cut: 3 of 4 descriptors, then the process let go of them");
}

TEST(CollectIdentity, FromTheTrees) {
    auto identity = identify(tree("unified"), 1234);
    ASSERT_TRUE(identity) << identity.error().what;
    EXPECT_EQ(identity->comm, "web) S 7 (\nx");
    EXPECT_EQ(identity->exe, "/usr/sbin/webd (deleted)");
    EXPECT_EQ(identity->cgroup, "/system.slice/webd.service");
    EXPECT_EQ(identity->unit, "webd.service");
    EXPECT_EQ(identity->container, "");
    EXPECT_EQ(identity->cmdline, "/usr/sbin/webd --port 8080");
    EXPECT_EQ(identity->uid, 34u) << "the effective one";
    EXPECT_EQ(identity->start_ticks, 123456u);
    identity = identify(tree("hybrid"), 77);
    ASSERT_TRUE(identity);
    EXPECT_EQ(identity->cgroup, "/system.slice/db.service") << "systemd's v1 hierarchy, the v2 tree is unused";
    EXPECT_EQ(identity->unit, "db.service");
    EXPECT_EQ(identity->exe, "");
    EXPECT_EQ(identify(tree("hybrid"), 78).error().code, ENOENT);
}

TEST(CollectIdentity, WhoseUserCannotBeReadIsNobody) {
    const auto root = std::filesystem::path(testing::TempDir()) / "incidentd-identity";
    const auto process = root / "proc" / "99";
    std::filesystem::create_directories(process);
    std::string zeros;
    for (int i = 0; i < 48; ++i)
        zeros += " 0";
    std::ofstream(process / "stat") << "99 (worker) S 1" << zeros << "\n";
    // It has ended between the two.
    EXPECT_FALSE(identify(OsRoots{.proc = process.parent_path()}, 99));
    std::ofstream(process / "status") << "Name:\tworker\nUid:\t34\n";
    EXPECT_FALSE(identify(OsRoots{.proc = process.parent_path()}, 99));
    std::ofstream(process / "status") << "Name:\tworker\nUid:\t1000\t34\t34\t34\n";
    const auto identity = identify(OsRoots{.proc = process.parent_path()}, 99);
    ASSERT_TRUE(identity) << identity.error().what;
    EXPECT_EQ(identity->real_uid, 1000u);
    EXPECT_EQ(identity->uid, 34u);
    std::filesystem::remove_all(root);
}

// The first thread gone by pthread_exit(): its own /proc files are empty, its siblings' are not.
TEST(CollectProcessLive, WithoutItsFirstThread) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        std::thread([] { ::pause(); }).detach();
        ::syscall(SYS_exit, 0); // as pthread_exit() ends, without unwinding through the test
    }
    std::uint64_t start = 0;
    for (int i = 0; i < 500; ++i) {
        std::ifstream stat("/proc/" + std::to_string(child) + "/stat");
        const auto parsed = parse_proc_stat(std::string((std::istreambuf_iterator<char>(stat)), {}));
        ASSERT_TRUE(parsed);
        start = parsed->start_ticks * TICK;
        if (parsed->state == 'Z')
            break;
        ::usleep(10'000);
    }
    Collected into;
    collect_process({}, {static_cast<std::uint32_t>(child), {start}}, unhurried_process(), into);
    const auto identity = identify({}, static_cast<std::uint32_t>(child));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    EXPECT_THAT(file(into, "process/maps"), HasSubstr("[stack]"));
    EXPECT_THAT(file(into, "process/fds"), HasSubstr("\"fd\":0"));
    ASSERT_TRUE(identity);
    EXPECT_NE(identity->exe, "");
}

} // namespace
} // namespace incident::capture
