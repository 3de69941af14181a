#include "state.h"

#include <chrono>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>

namespace incident::postmortem::test {

using namespace std::chrono_literals;

namespace {

std::string named(int pid, const std::string &id) {
    return "20261121T150405.123Z-crash-x-" + std::to_string(pid) + "-" + id;
}

Files files(const std::string &rule) {
    return {{"incident.json", Json{{"rule", rule}}.dump()}, {"timeline.jsonl", ""}};
}

void make_old(const std::filesystem::path &bundle) {
    const timespec old[2]{{1'700'000'000, 0}, {1'700'000'000, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (bundle / "timeline.jsonl").c_str(), old, 0), 0);
}

} // namespace

TEST(Wait, ReturnsWhatHasJustHappenedOnce) {
    State state;
    state.add(named(1, "aaaaaa"), files("crash"));
    EXPECT_EQ(state.run({"wait", "--timeout", "0s"}).out, named(1, "aaaaaa") + "\n");
    const Ran again = state.run({"wait", "--timeout", "20ms"});
    EXPECT_EQ(again.code, 1);
    EXPECT_EQ(again.err, "incidentctl: no incident within 20 ms\n");
}

TEST(Wait, OlderOnesDoNotCount) {
    State state;
    state.add(named(1, "aaaaaa"), files("crash"));
    make_old(state.bundle(named(1, "aaaaaa")));
    EXPECT_EQ(state.run({"wait", "--timeout", "0s"}).code, 1);
}

TEST(Wait, WithAPidAnyTimeCountsAgainAndAgain) {
    State state;
    state.add(named(17, "aaaaaa"), files("crash"));
    state.add(named(18, "bbbbbb"), files("crash"));
    make_old(state.bundle(named(17, "aaaaaa")));
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(state.run({"--json", "wait", "--pid", "17", "--timeout", "0s"}).out,
                  "{\"id\":\"" + named(17, "aaaaaa") + "\"}\n");
    EXPECT_EQ(state.run({"wait", "--pid", "99", "--timeout", "0s"}).err,
              "incidentctl: no incident of pid 99 within 0 ns\n");
}

TEST(Wait, RuleMustFit) {
    State state;
    state.add(named(1, "aaaaaa"), files("oom"));
    EXPECT_EQ(state.run({"wait", "--rule", "crash", "--timeout", "0s"}).err,
              "incidentctl: no incident of rule crash within 0 ns\n");
    EXPECT_EQ(state.run({"wait", "--rule", "oom", "--timeout", "0s"}).code, 0);
}

TEST(Wait, WakesForOneThatComesLater) {
    State state;
    std::filesystem::create_directory(state.dir() / "incidents");
    std::jthread later([&] {
        std::this_thread::sleep_for(100ms);
        state.add(named(1, "aaaaaa"), files("oom"));
        state.add(named(2, "bbbbbb"), files("crash"));
    });
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(state.run({"wait", "--rule", "crash", "--timeout", "30s"}).out, named(2, "bbbbbb") + "\n");
    EXPECT_LT(std::chrono::steady_clock::now() - start, 20s);
}

TEST(Wait, StateDirectoryMayNotExistYet) {
    State outer;
    const auto dir = outer.dir() / "a" / "b";
    std::jthread later([&] {
        std::this_thread::sleep_for(50ms);
        std::filesystem::create_directories(dir);
        std::this_thread::sleep_for(50ms);
        std::filesystem::create_directories(dir / "incidents");
        std::this_thread::sleep_for(50ms);
        std::filesystem::create_directory(dir / "incidents" / (".partial-" + named(1, "aaaaaa")));
        std::this_thread::sleep_for(50ms);
        std::filesystem::rename(dir / "incidents" / (".partial-" + named(1, "aaaaaa")),
                                dir / "incidents" / named(1, "aaaaaa"));
    });
    const Ran ran = outer.run({"wait", "--timeout", "30s", "--state", dir.string()});
    EXPECT_EQ(ran.out, named(1, "aaaaaa") + "\n") << ran.err;
}

} // namespace incident::postmortem::test
