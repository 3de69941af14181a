// How seldom cores are looked for.
#include "daemon/os/clocks.h"
#include "daemon/write/core_follower.h"
#include "daemon/write/journal_search.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/resource.h>
#include <systemd/sd-id128.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t millisecond = 1'000'000, second = 1'000'000'000;

class Cores : public testing::Test {
protected:
    Cores() {
        char path[] = "/tmp/incidentd-test-XXXXXX";
        root = ::mkdtemp(path);
        fs::create_directories(root / "proc/sys/kernel");
        fs::create_directories(root / "proc/1/net");
        fs::create_directories(root / "journal");
        std::ofstream(root / "proc/sys/kernel/core_pattern")
            << "|/lib/systemd/systemd-coredump %P %u %g %s %t 9223372036854775808 %h %d\n";
        std::ofstream(root / "proc/1/net/unix")
            << "0000000000000000: 00000002 00000000 00010000 0005 01 1234 /run/systemd/coredump\n";
        os.proc = root / "proc";
    }
    ~Cores() override { fs::remove_all(root); }
    static WantedCore wanted(std::uint32_t pid, std::uint64_t now, std::uint64_t patience, std::uint32_t uid) {
        WantedCore core;
        core.bundle = "bundle-" + std::to_string(pid);
        core.exe = "/bin/app";
        core.give_up_ns = now + patience;
        auto &event = core.input.process.event;
        event.h.tgid = pid;
        event.h.t_ns = now;
        event.uid = uid;
        event.number = SIGSEGV;
        event.fatal = 1;
        event.limits[RLIMIT_CORE].soft = ~0ull;
        event.dumpable = 1;
        core.input.clocks.monotonic.ns = now;
        core.input.clocks.realtime.ns = now;
        sd_id128_t id{};
        char text[SD_ID128_STRING_MAX];
        EXPECT_GE(::sd_id128_get_boot(&id), 0);
        core.input.clocks.boot_id = ::sd_id128_to_string(id, text);
        return core;
    }
    void follow(CoreFollower &cores, std::uint32_t pid, std::uint64_t now, std::uint64_t patience = 60 * second,
                std::uint32_t uid = 0) const {
        cores.follow(wanted(pid, now, patience, uid));
    }
    CoreFollower cores() {
        return CoreFollower(
            os,
            [this] {
                ++readings;
                return log;
            },
            root / "journal");
    }
    fs::path root;
    capture::OsRoots os;
    int readings = 0;
    std::string log = "[1.2] <6> nothing to do with it\n";
};

TEST_F(Cores, TheKernelLogIsReadForAllOfThemAndEverLessOften) {
    auto follower = cores();
    for (std::uint32_t pid = 100; pid < 200; ++pid)
        follow(follower, pid, second);
    for (std::uint64_t now = second; now <= second + 300 * millisecond; now += 100 * millisecond)
        EXPECT_THAT(follower.look(now), IsEmpty());
    EXPECT_EQ(readings, 0) << "the kernel has not had the time to say anything";
    for (std::uint64_t now = second + 400 * millisecond; now < 31 * second; now += 100 * millisecond)
        EXPECT_THAT(follower.look(now), IsEmpty());
    EXPECT_GE(readings, 4);
    EXPECT_LE(readings, 10) << "of 300 looks for each of 100";
    // one who comes later does not wait for the others' next reading
    const int before = readings;
    follow(follower, 300, 31 * second);
    for (std::uint64_t now = 31 * second; now <= 32 * second; now += 100 * millisecond)
        follower.look(now);
    EXPECT_GT(readings, before);
}

TEST_F(Cores, WhatTheKernelSaysEndsTheSearch) {
    auto follower = cores();
    follow(follower, 100, second);
    follow(follower, 101, second);
    log = "[1.2] <4> Pid 101(app) over core_pipe_limit\n";
    std::vector<FoundCore> answers;
    for (std::uint64_t now = second; answers.empty() && now < 20 * second; now += 100 * millisecond)
        answers = follower.look(now);
    ASSERT_THAT(answers, SizeIs(1));
    EXPECT_EQ(answers[0].bundle, "bundle-101");
    EXPECT_THAT(answers[0].link.reason, HasSubstr("core_pipe_limit"));
    EXPECT_EQ(follower.count(), 1u);
}

// It may be about the core of another process.
TEST_F(Cores, WhatTheKernelSaysOfNobodyIsToldAtTheEnd) {
    auto follower = cores();
    follow(follower, 100, second, 5 * second);
    log = "[1.2] <6> Core dump to |/lib/systemd/systemd-coredump pipe failed\n";
    std::uint64_t now = second;
    for (; now < 6 * second; now += 100 * millisecond)
        EXPECT_THAT(follower.look(now), IsEmpty());
    const auto answers = follower.look(now);
    ASSERT_THAT(answers, SizeIs(1));
    EXPECT_THAT(answers[0].link.reason, HasSubstr("no journal entry of systemd-coredump within 5 s"));
    EXPECT_THAT(answers[0].link.reason, HasSubstr("could not start the handler of a core"));
}

// In a pid namespace of hers anybody has a process of that number.
TEST_F(Cores, WhatTheKernelSaysOfAProcessThatIsBeingDumpedIsOfAnother) {
    const fs::path process = root / "proc/101";
    fs::create_directories(process);
    std::ofstream(process / "stat") << "101 (app) S 1 101 101 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 1 0 0 0 0 "
                                       "18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
    std::ofstream(process / "status") << "Name:\tapp\nCoreDumping:\t1\n";
    auto follower = cores();
    follow(follower, 101, second);
    log = "[1.2] <4> Pid 101(app) over core_pipe_limit\n";
    std::uint64_t now = second;
    for (; now < 20 * second; now += 100 * millisecond)
        EXPECT_THAT(follower.look(now), IsEmpty());
    fs::remove_all(process);
    std::vector<FoundCore> answers;
    for (; answers.empty() && now < 40 * second; now += 100 * millisecond)
        answers = follower.look(now);
    ASSERT_THAT(answers, SizeIs(1));
    EXPECT_THAT(answers[0].link.reason, HasSubstr("core_pipe_limit"));
}

// The loop is not kept from other work by however many wait, and nobody's waits for all of another user's.
TEST_F(Cores, UsersTakeTurnsInAFewSearchesAtOnce) {
    auto follower = cores();
    for (std::uint32_t pid = 1000; pid < 3000; ++pid)
        follow(follower, pid, second, second, 1000);
    for (std::uint32_t uid = 0; uid < 3; ++uid)
        follow(follower, 100 + uid, second, second, uid);
    std::vector<std::string> given_up;
    std::uint64_t now = 3 * second;
    for (int looks = 0; looks < 3; ++looks, now += 100 * millisecond) {
        const auto answers = follower.look(now);
        EXPECT_LE(answers.size(), CoreFollower::most_searches);
        for (const auto &answer : answers)
            given_up.push_back(answer.bundle);
    }
    for (const char *other : {"bundle-100", "bundle-101", "bundle-102"})
        EXPECT_THAT(given_up, testing::Contains(other));
    while (follower.waiting())
        EXPECT_THAT(follower.look(now += 100 * millisecond), Not(IsEmpty())) << "all have their turn";
}

TEST_F(Cores, TheLogIsReadBeforeOneIsGivenUp) {
    auto follower = cores();
    follow(follower, 100, second);
    for (std::uint64_t now = second; now < 20 * second; now += 100 * millisecond)
        follower.look(now);
    follow(follower, 101, 20 * second, 400 * millisecond);
    const int before = readings;
    const auto answers = follower.look(20 * second + 400 * millisecond);
    EXPECT_EQ(readings, before + 1);
    ASSERT_THAT(answers, SizeIs(1));
    EXPECT_THAT(answers[0].link.reason, HasSubstr("no journal entry of systemd-coredump within 0 s"));
}

TEST_F(Cores, AJournalThatCannotBeOpenedForAMomentIsOpenedLater) {
    auto follower = cores();
    fs::remove(root / "journal");
    follow(follower, 100, second, second);
    follow(follower, 101, second, 2 * second);
    EXPECT_THAT(follower.look(second), IsEmpty());
    auto answers = follower.look(2 * second);
    ASSERT_THAT(answers, SizeIs(1));
    EXPECT_EQ(answers[0].bundle, "bundle-100");
    EXPECT_THAT(answers[0].link.reason, HasSubstr("open the journal in "));
    fs::create_directories(root / "journal");
    answers = follower.look(3 * second);
    ASSERT_THAT(answers, SizeIs(1));
    EXPECT_THAT(answers[0].link.reason, HasSubstr("no journal entry of systemd-coredump within 2 s"));
}

std::string skipped_at(std::uint64_t ns) {
    return "[" + std::to_string(ns / second + 1) + ".2] <4> Pid 101(app) over core_pipe_limit\n";
}

std::vector<FoundCore> next_found(CoreSearch &search) {
    pollfd ready{search.fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 60'000), 1);
    return search.take_found();
}

TEST_F(Cores, AreSearchedForOnAThreadOfItsOwn) {
    auto search = CoreSearch::start(cores());
    ASSERT_TRUE(search) << search.error().what;
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    log = skipped_at(now);
    EXPECT_FALSE((*search)->waiting());
    EXPECT_TRUE((*search)->follow(wanted(101, now, 60 * second, 0)));
    EXPECT_TRUE((*search)->waiting());
    const auto answers = next_found(**search);
    ASSERT_THAT(answers, SizeIs(1));
    EXPECT_EQ(answers[0].bundle, "bundle-101");
    EXPECT_THAT(answers[0].link.reason, HasSubstr("core_pipe_limit"));
    EXPECT_FALSE((*search)->waiting());
    EXPECT_THAT((*search)->overdue(now + 1000 * second), IsEmpty());
}

TEST_F(Cores, ASearchThatHangsKeepsNobodyWaiting) {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    std::promise<void> goes_on;
    const auto gate = goes_on.get_future().share();
    const auto asked = std::make_shared<std::atomic<bool>>(false); // the thread may outlive this
    auto search = CoreSearch::start(CoreFollower(
        os,
        [gate, asked, now] {
            *asked = true;
            asked->notify_all();
            gate.wait();
            return skipped_at(now);
        },
        root / "journal"));
    ASSERT_TRUE(search) << search.error().what;
    EXPECT_TRUE((*search)->follow(wanted(101, now, 60 * second, 0)));
    asked->wait(false);
    EXPECT_THAT((*search)->overdue(now + 60 * second), IsEmpty());
    const std::uint64_t late = now + 60 * second + CoreSearch::patience_ns + 1;
    EXPECT_THAT((*search)->overdue(late), testing::ElementsAre("bundle-101"));
    EXPECT_THAT((*search)->overdue(late), IsEmpty()) << "said once";
    for (std::size_t i = 0; i < CoreSearch::most_waiting; ++i)
        EXPECT_TRUE((*search)->follow(wanted(102, now, 60 * second, 0)));
    EXPECT_FALSE((*search)->follow(wanted(103, now, 60 * second, 0))) << "or memory would fill";
    goes_on.set_value();
    const auto answers = next_found(**search);
    ASSERT_FALSE(answers.empty());
    EXPECT_EQ(answers[0].bundle, "bundle-101") << "later than never";
}

} // namespace
} // namespace incident::daemon
