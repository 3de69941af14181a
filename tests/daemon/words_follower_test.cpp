// When the past of an incident is searched for, and what it is: lines of the journal, incidents and cores of the unit.
#include "daemon/os/clocks.h"
#include "daemon/write/journal_search.h"
#include "daemon/write/words_follower.h"
#include "tests/capture/journal_fixture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>
#include <thread>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using capture::test::MadeJournal;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using WordState = capture::LastWords::State;

constexpr std::uint64_t a_second = 1'000'000'000, us_a_second = 1'000'000;
constexpr std::uint64_t the_trigger = 5000 * a_second;

class Words : public testing::Test {
protected:
    Words() {
        char path[] = "/tmp/incidentd-words-XXXXXX";
        state = ::mkdtemp(path);
        os.systemd = state + "/no-systemd";
        os.proc = state + "/proc";
        EXPECT_TRUE(capture::IncidentsDir::open(state, true));
    }
    ~Words() override { fs::remove_all(state); }

    void SetUp() override {
        if (!MadeJournal::possible())
            GTEST_SKIP() << "no systemd-journal-remote, which makes the journal";
    }

    static capture::WallTime wall(std::uint64_t monotonic_ns) {
        return {capture::test::made_epoch_us * 1000 + monotonic_ns};
    }

    static WantedWords wanted(const std::string &bundle, std::uint64_t at_ns = the_trigger, std::uint32_t user = 0) {
        return {.bundle = bundle,
                .speaker = {.boot_id = capture::test::made_boot,
                            .unit = "shop.service",
                            .cgroup = "/system.slice/shop.service",
                            .pid = 42,
                            .started = {4000 * a_second}},
                .instant = {at_ns},
                .time = wall(at_ns),
                .lines = 200,
                .user = user,
                .due_ns = at_ns + words_after_ns + journald_slack_ns,
                .give_up_ns = at_ns + 3 * a_second};
    }

    void incident(std::uint64_t at_ns, const std::string &unit, std::uint32_t pid) {
        auto directory = capture::IncidentsDir::open(state, true);
        ASSERT_TRUE(directory);
        auto partial = directory->begin(capture::bundle_name(wall(at_ns), "crash", "app", pid, "abcdef"));
        ASSERT_TRUE(partial);
        const std::string text = R"({"time": "t", "rule": "crash", "kind": "signal", "signal": {"name": "SIGSEGV"},
            "process": {"pid": )" +
                                 std::to_string(pid) + R"(, "unit": ")" + unit + R"(", "cgroup": "/system.slice/)" +
                                 unit + R"(", "exe": "/usr/bin/app"}})";
        ASSERT_TRUE(partial->add("incident.json", text));
        ASSERT_TRUE(partial->commit());
    }

    void core(std::uint64_t at_us, const std::string &unit, const std::string &pid, const std::string &uid,
              const std::string &exe = "/usr/lib/systemd/systemd-coredump") {
        journal.add(at_us, {{"MESSAGE_ID", "fc2e22bc6ee647b6b90729ab34a250b1"},
                            {"_TRANSPORT", "journal"},
                            {"_UID", uid},
                            {"_EXE", exe},
                            {"COREDUMP_UNIT", unit},
                            {"COREDUMP_PID", pid},
                            {"COREDUMP_UID", "1000"},
                            {"COREDUMP_SIGNAL", "6"},
                            {"COREDUMP_COMM", "app"},
                            {"COREDUMP_EXE", "/usr/bin/app"}});
    }

    WordsFollower follower() { return WordsFollower(state, os, journal.directory()); }

    std::string state;
    capture::OsRoots os;
    MadeJournal journal;
};

TEST_F(Words, AreReadWhenTheTimeAfterTheTriggerHasPassed) {
    journal.add(4999 * us_a_second, {{"_PID", "42"}, {"MESSAGE", "before"}});
    journal.add(5001 * us_a_second, {{"_PID", "1"}, {"_UID", "0"}, {"UNIT", "shop.service"}, {"MESSAGE", "exited"}});
    journal.add(5003 * us_a_second, {{"_SYSTEMD_UNIT", "shop.service"}, {"MESSAGE", "again"}});
    journal.write();
    WordsFollower all = follower();
    all.follow(wanted("a"));
    EXPECT_THAT(all.look(the_trigger + 2 * a_second), IsEmpty())
        << "journald may have taken some that it has not written yet";
    EXPECT_TRUE(all.waiting());
    const auto found = all.look(the_trigger + 2 * a_second + journald_slack_ns);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_FALSE(all.waiting());
    EXPECT_EQ(found[0].bundle, "a");
    const capture::LastWords &words = found[0].past.words;
    EXPECT_EQ(words.state, WordState::Read) << words.reason;
    ASSERT_THAT(words.words, SizeIs(2));
    EXPECT_EQ(words.words[0].message, "before");
    EXPECT_EQ(words.words[1].message, "exited");
    EXPECT_FALSE(words.ended_early);
}

TEST_F(Words, AreNotWaitedForWhenTheDaemonEnds) {
    journal.add(4999 * us_a_second, {{"_PID", "42"}, {"MESSAGE", "before"}});
    journal.write();
    WordsFollower all = follower();
    all.follow(wanted("a"));
    all.hurry();
    const auto found = all.look(the_trigger + a_second / 2);
    ASSERT_THAT(found, SizeIs(1));
    const capture::LastWords &words = found[0].past.words;
    EXPECT_THAT(words.words, SizeIs(1));
    EXPECT_TRUE(words.ended_early);
    EXPECT_EQ(words.until.ns, the_trigger + a_second / 2);
    EXPECT_THAT(words.losses(), HasSubstr("incidentd ended"));
}

TEST_F(Words, UsersTakeTurns) {
    journal.add(1, {{"MESSAGE", "x"}});
    journal.write();
    WordsFollower all = follower();
    for (std::size_t i = 0; i < 2 * WordsFollower::most_searches; ++i)
        all.follow(wanted("first" + std::to_string(i), the_trigger + i, 1));
    all.follow(wanted("second", the_trigger + 1000, 2));
    const auto found = all.look(the_trigger + 10 * a_second);
    EXPECT_THAT(found, SizeIs(WordsFollower::most_searches));
    EXPECT_EQ(found[0].bundle, "first0");
    EXPECT_EQ(found[1].bundle, "second");
}

// One search may take seconds.
TEST_F(Words, AnswersAreToldBeforeAllTheOthersHaveTheirs) {
    WordsFollower all(state, os, "", [](const WantedWords &) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return capture::Past();
    });
    for (std::size_t i = 0; i < 4; ++i)
        all.follow(wanted(std::to_string(i), the_trigger + i));
    EXPECT_THAT(all.look(the_trigger + 10 * a_second), SizeIs(testing::Le(2u)));
    EXPECT_TRUE(all.more_due());
    EXPECT_TRUE(all.waiting());
    while (all.waiting())
        EXPECT_THAT(all.look(the_trigger + 10 * a_second), Not(IsEmpty()));
    EXPECT_FALSE(all.more_due());
}

TEST_F(Words, UsersTakeTurnsAlsoIfOneSearchTakesAllTheTime) {
    WordsFollower all(state, os, "", [](const WantedWords &one) {
        if (one.user == 1)
            std::this_thread::sleep_for(std::chrono::milliseconds(600));
        return capture::Past();
    });
    for (std::size_t i = 0; i < 4; ++i)
        all.follow(wanted("first" + std::to_string(i), the_trigger + i, 1));
    all.follow(wanted("second", the_trigger + 1000, 2));
    auto found = all.look(the_trigger + 10 * a_second);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].bundle, "first0");
    found = all.look(the_trigger + 10 * a_second);
    ASSERT_THAT(found, Not(IsEmpty()));
    EXPECT_EQ(found[0].bundle, "second");
}

TEST_F(Words, ThatWereGivenUpAreNotSearchedFor) {
    int searches = 0;
    WordsFollower all(state, os, "", [&](const WantedWords &) {
        ++searches;
        return capture::Past();
    });
    all.follow(wanted("a"));
    EXPECT_THAT(all.look(the_trigger + 3 * a_second + WordsSearch::patience_ns + 1), IsEmpty());
    EXPECT_EQ(searches, 0);
    EXPECT_FALSE(all.waiting());
}

TEST_F(Words, ForWhichThereIsNoMemoryAreNotSearchedForAgain) {
    WordsFollower all(state, os, "", [](const WantedWords &one) {
        if (one.bundle == "large")
            throw std::bad_alloc();
        return capture::Past();
    });
    all.follow(wanted("small", the_trigger));
    all.follow(wanted("large", the_trigger + 1));
    all.follow(wanted("none", the_trigger + 2));
    const auto found = all.look(the_trigger + 10 * a_second);
    ASSERT_THAT(found, SizeIs(3)) << "the others have their answers";
    EXPECT_EQ(found[1].bundle, "large");
    EXPECT_EQ(found[1].past.words.state, WordState::Failed);
    EXPECT_EQ(found[1].past.words.reason, std::bad_alloc().what());
    EXPECT_FALSE(all.waiting());
}

TEST_F(Words, NobodyPausesWhileSomeAreDue) {
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    auto search = WordsSearch::start(WordsFollower(state, os, "", [](const WantedWords &) { return capture::Past(); }));
    ASSERT_TRUE(search) << search.error().what;
    constexpr std::size_t many = 100 * WordsFollower::most_searches; // which would take ten seconds
    for (std::size_t i = 0; i < many; ++i)
        EXPECT_TRUE((*search)->follow(wanted(std::to_string(i), now - 3 * a_second)));
    for (std::size_t found = 0; found < many; found += (*search)->take_found().size()) {
        pollfd ready{(*search)->fd(), POLLIN, 0};
        ASSERT_EQ(::poll(&ready, 1, 60'000), 1);
    }
    EXPECT_LT(clock_ns(CLOCK_MONOTONIC) - now, 8 * a_second);
}

TEST_F(Words, OfAnEarlierBootAreReadUpToTheirInstant) {
    journal.add(4999 * us_a_second, {{"_PID", "42"}, {"MESSAGE", "before"}});
    journal.write();
    WordsFollower all = follower();
    all.follow(wanted("a"));
    all.hurry();
    const auto found = all.look(10 * a_second); // the clock has begun anew
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_THAT(found[0].past.words.words, SizeIs(1));
    EXPECT_EQ(found[0].past.words.until.ns, the_trigger);
}

TEST_F(Words, OtherIncidentsAreReadOnceAndNotTooManyAtATime) {
    constexpr std::size_t many = 700;
    auto directory = capture::IncidentsDir::open(state, true);
    ASSERT_TRUE(directory);
    for (std::size_t i = 0; i < many; ++i) {
        const fs::path bundle = fs::path(directory->path()) /
                                capture::bundle_name(wall(the_trigger - (i + 1) * a_second), "crash", "app", 7, "aa");
        fs::create_directory(bundle);
        std::ofstream(bundle / "incident.json") << R"({"process": {"unit": "shop.service"}})";
    }
    IncidentsOfUnits incidents(state);
    const auto find = [&](std::chrono::milliseconds deadline) {
        return incidents.find(capture::bundle_name(wall(the_trigger), "crash", "app", 42, "aa"), wall(the_trigger),
                              wanted("").speaker, std::chrono::hours(1), deadline);
    };
    EXPECT_THAT(find(std::chrono::milliseconds(0)).problem, HasSubstr("the deadline passed"));
    const auto first = find(std::chrono::minutes(1));
    EXPECT_THAT(first.problem, HasSubstr("too many"));
    EXPECT_EQ(first.incidents.size() + first.more, IncidentsOfUnits::most_read);
    const auto second = find(std::chrono::minutes(1));
    EXPECT_EQ(second.problem, "");
    EXPECT_EQ(second.incidents.size() + second.more, many);
}

TEST_F(Words, OtherIncidentsOfTheUnitAreNamed) {
    journal.add(1, {{"MESSAGE", "x"}});
    journal.write();
    incident(the_trigger - 3700 * a_second, "shop.service", 30); // too long ago
    incident(the_trigger - 60 * a_second, "shop.service", 31);
    incident(the_trigger - 50 * a_second, "other.service", 32);
    incident(the_trigger + 1 * a_second, "shop.service", 33); // later
    const std::string own = capture::bundle_name(wall(the_trigger), "crash", "app", 42, "abcdef");
    incident(the_trigger, "shop.service", 42);
    WordsFollower all = follower();
    all.follow(wanted(own));
    const auto found = all.look(the_trigger + 10 * a_second);
    ASSERT_THAT(found, SizeIs(1));
    const auto &incidents = found[0].past.incidents;
    ASSERT_THAT(incidents.incidents, SizeIs(1));
    EXPECT_EQ(incidents.incidents[0].pid, 31u);
    EXPECT_EQ(incidents.incidents[0].signal, "SIGSEGV");
    EXPECT_EQ(incidents.incidents[0].exe, "/usr/bin/app");
    EXPECT_EQ(incidents.problem, "");
}

TEST_F(Words, CoresOfTheUnitAreNamedIfSystemdCoredumpSaysSo) {
    core(1000 * us_a_second, "shop.service", "20", "0"); // too long ago
    core(4990 * us_a_second, "shop.service", "21", "0");
    core(4991 * us_a_second, "other.service", "22", "0");
    core(4992 * us_a_second, "shop.service", "23", "1000");             // any user's program can say so
    core(4993 * us_a_second, "shop.service", "24", "0", "/tmp/forged"); // as root, but not systemd-coredump
    core(5001 * us_a_second, "shop.service", "42", "0");                // its own
    journal.write();
    WordsFollower all = follower();
    all.follow(wanted("a"));
    const auto found = all.look(the_trigger + 10 * a_second);
    ASSERT_THAT(found, SizeIs(1));
    const auto &cores = found[0].past.cores;
    ASSERT_THAT(cores.cores, SizeIs(1)) << cores.problem;
    EXPECT_EQ(cores.cores[0].pid, 21u);
    EXPECT_EQ(cores.cores[0].signal, 6);
    EXPECT_EQ(cores.cores[0].comm, "app");
}

TEST_F(Words, CoresTakeNoMoreMemoryThanIsReadOfThem) {
    std::mt19937 random(1);
    std::string large(8u << 20, '\0'); // that cannot be compressed
    for (char &byte : large)
        byte = static_cast<char>(random());
    journal.add(4990 * us_a_second, {{"MESSAGE_ID", "fc2e22bc6ee647b6b90729ab34a250b1"},
                                     {"_TRANSPORT", "journal"},
                                     {"_UID", "0"},
                                     {"_EXE", "/usr/lib/systemd/systemd-coredump"},
                                     {"COREDUMP_UNIT", "shop.service"},
                                     {"COREDUMP_PID", "21"},
                                     {"COREDUMP_COMM", large},
                                     {"COREDUMP_EXE", large}});
    journal.write();
    WordsFollower all = follower();
    all.follow(wanted("a"));
    const auto found = all.look(the_trigger + 10 * a_second);
    ASSERT_THAT(found, SizeIs(1));
    const auto &cores = found[0].past.cores;
    ASSERT_THAT(cores.cores, SizeIs(1)) << cores.problem;
    EXPECT_LE(cores.cores[0].comm.capacity(), 2 * capture::core_field_max);
    EXPECT_LE(cores.cores[0].exe.capacity(), 2 * capture::core_field_max);
}

TEST_F(Words, OfAJournalThatCannotBeOpenedTheReasonIsTold) {
    WordsFollower all(state, os, state + "/nothing");
    all.follow(wanted("a"));
    const auto found = all.look(the_trigger + 10 * a_second);
    ASSERT_THAT(found, SizeIs(1));
    EXPECT_EQ(found[0].past.words.state, WordState::Failed);
    EXPECT_THAT(found[0].past.words.reason, HasSubstr("open the journal"));
    EXPECT_THAT(found[0].past.cores.problem, HasSubstr("open the journal"));
}

TEST_F(Words, AreSearchedForOnAThreadOfItsOwnAndHurried) {
    journal.add(4999 * us_a_second, {{"_PID", "42"}, {"MESSAGE", "before"}});
    journal.write();
    auto search = WordsSearch::start(follower());
    ASSERT_TRUE(search) << search.error().what;
    WantedWords far = wanted("a", ~0ull / 4); // it would be waited for very long
    EXPECT_TRUE((*search)->follow(far));
    (*search)->hurry();
    pollfd ready{(*search)->fd(), POLLIN, 0};
    EXPECT_EQ(::poll(&ready, 1, 60'000), 1);
    EXPECT_THAT((*search)->take_found(), SizeIs(1));
}

TEST_F(Words, ThatAKilledDaemonLeftPendingAreReadByTheNext) {
    auto directory = capture::IncidentsDir::open(state, true);
    ASSERT_TRUE(directory);
    const auto left_over = [&](const std::string &id, const std::string &word_state, const std::string &changes = "") {
        const std::string name = capture::bundle_name(wall(the_trigger), "crash", "app", 42, id);
        auto partial = directory->begin(name);
        EXPECT_TRUE(partial);
        EXPECT_TRUE(partial->add("incident.json", R"({"boot_id": ")" + std::string(capture::test::made_boot) + R"(",
            "last_words": {"state": ")" + word_state + R"("}, "process": {"pid": 42, "tgid_start_ns": 4000000000000,
            "uid": 7, "unit": "shop.service", "cgroup": "/system.slice/shop.service"}, "clocks": {
            "trigger_ns": 5000000000000, "monotonic_ns": 5000000000001, "boottime_ns": 5000000000001,
            "realtime_ns": 1700005000000000001)" + changes +
                                                      "}}"));
        EXPECT_TRUE(partial->commit());
        return words_left_over(*directory->bundle(name), 100);
    };
    EXPECT_FALSE(left_over("aaaaaa", "read"));
    const auto found = left_over("bbbbbb", "pending");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->speaker.unit, "shop.service");
    EXPECT_EQ(found->speaker.pid, 42u);
    EXPECT_EQ(found->speaker.started.ns / a_second, 3999u);
    EXPECT_EQ(found->instant.ns, the_trigger);
    EXPECT_EQ(found->time, wall(the_trigger));
    EXPECT_EQ(found->lines, 100u);
    EXPECT_EQ(found->user, 7u);
    EXPECT_LE(found->due_ns, clock_ns(CLOCK_MONOTONIC) + words_after_ns + journald_slack_ns);
    const auto slept = left_over("cccccc", "pending", R"(, "changes": [
        {"t_ns": 4900000000000, "slept_ns": 600000000000, "set_by_ns": 0},
        {"t_ns": 5000000000001, "slept_ns": 60000000000, "set_by_ns": -1}])");
    ASSERT_TRUE(slept);
    EXPECT_EQ(slept->time, wall(the_trigger - 60 * a_second)) << "it slept after the trigger";
    EXPECT_EQ(slept->speaker.started.ns / a_second, 3999u + 660u) << "it was born before both sleeps";
}

TEST(WordsPlan, SaysWhatIsNotLookedFor) {
    capture::IncidentInput input;
    input.clocks.boot_id = capture::test::made_boot;
    input.clocks.monotonic = {the_trigger + 1};
    input.clocks.boottime = {the_trigger + 1};
    auto &event = input.process.event;
    event.h.t_ns = the_trigger;
    rules::ProcessFacts facts;
    EXPECT_FALSE(plan_words("b", input, facts, 200).wanted);
    EXPECT_THAT(plan_words("b", input, facts, 200).now.reason, HasSubstr("about no process"));
    facts.pid = event.h.tgid = 42;
    event.h.process_start_boot_ns = a_second;
    facts.unit = "shop.service";
    const WordsPlan plan = plan_words("b", input, facts, 100);
    ASSERT_TRUE(plan.wanted);
    EXPECT_EQ(plan.now.state, WordState::Pending);
    EXPECT_EQ(plan.now.until.ns, the_trigger + 2 * a_second);
    EXPECT_EQ(plan.wanted->lines, 100u);
    EXPECT_EQ(plan.wanted->speaker.pid, 42u);
    const WordsPlan none = plan_words("b", input, facts, 0);
    EXPECT_EQ(none.now.state, WordState::None);
    EXPECT_TRUE(none.wanted) << "other incidents and cores are named all the same";
    EXPECT_EQ(past_not_found(*none.wanted, "it hangs").words.state, WordState::None) << "it would not be read";
    EXPECT_EQ(past_not_found(*none.wanted, "it hangs").cores.problem, "it hangs");
    EXPECT_EQ(past_not_found(*plan.wanted, "it hangs").words.state, WordState::Failed);
    input.light = true;
    EXPECT_FALSE(plan_words("b", input, facts, 200).wanted);
    EXPECT_EQ(plan_words("b", input, facts, 200).now.reason, "the incident was kept light") << "for whatever reason";
}

} // namespace
} // namespace incident::daemon
