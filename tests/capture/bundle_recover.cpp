#include "capture/bundle/bundle_writer.h"
#include "tests/capture/bundle_fixture.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <random>

namespace incident::capture {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::StartsWith;
using BundleFiles = std::vector<std::pair<std::string, std::string>>;

class BundleRecover : public BundleTest {
protected:
    // In memory where there is such a place: hundreds of writers' lives, and a kill of the
    // writer (not of the machine) does not care whether fsync reached a disk.
    BundleRecover() : BundleTest(::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") {}

    std::vector<std::string> recover() {
        auto said = dir.recover();
        return said ? *said : std::vector{"error: " + said.error().what};
    }
    void rename(const std::string &from, const std::string &to) { std::filesystem::rename(at(from), at(to)); }

    // What must hold after any interruption.
    void expect_sound() {
        const auto said = dir.recover();
        ASSERT_TRUE(said) << said.error().what;
        for (const std::string &entry : entries()) {
            EXPECT_THAT(entry, testing::Not(StartsWith(".")));
            EXPECT_THAT(verify(entry), IsEmpty()) << entry;
            const std::string incident = read(entry, "incident.json");
            EXPECT_TRUE(incident == "first" || incident == "second") << incident;
            EXPECT_EQ(read(entry, "process/maps"), "maps");
        }
        EXPECT_THAT(recover(), IsEmpty());
    }

    // A writer's life: commit, amend, remove.
    void live(const std::string &name, bool end) {
        auto partial = dir.begin(name);
        if (!partial || !partial->add("incident.json", "first") || !partial->add("process/maps", "maps") ||
            !partial->commit() || !dir.amend(name, BundleFiles{{"incident.json", "second"}}) ||
            (end && !dir.remove(name)))
            ::_exit(1);
    }
};

TEST_F(BundleRecover, LeavesCommittedBundlesAlone) {
    commit();
    std::filesystem::create_directory(at("lost+found"));
    std::filesystem::create_directory(at(".snapshot"));
    EXPECT_THAT(recover(), IsEmpty());
    EXPECT_THAT(verify(), IsEmpty());
    EXPECT_TRUE(std::filesystem::exists(at(".snapshot"))) << "not ours";
}

TEST_F(BundleRecover, FinishesWhatLackedOnlyTheRename) {
    commit();
    rename(NAME, ".partial-" + NAME);
    EXPECT_THAT(recover(), ElementsAre("finished " + NAME + ": only its rename was missing"));
    EXPECT_THAT(verify(), IsEmpty());
}

TEST_F(BundleRecover, RemovesWhatIsNotWhole) {
    commit();
    rename(NAME, ".partial-" + NAME);
    write(".partial-" + NAME + "/process/maps", "torn");
    EXPECT_THAT(recover(), ElementsAre("removed .partial-" + NAME +
                                       ": interrupted before it was whole (process/maps: changed (SHA-256 differs))"));
    write(".partial-" + NAME + "/incident.json", "{}");
    write(".removed-" + NAME + "/incident.json", "{}");
    write(".amend-bogus", "a file");
    EXPECT_THAT(recover(),
                ElementsAre("removed .amend-bogus: not a bundle",
                            "removed .partial-" + NAME + ": interrupted before it was whole (MANIFEST: missing)",
                            "removed .removed-" + NAME + ": removal interrupted"));
    EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(BundleRecover, AnAmendmentIsEitherFinishedOrCleanedUp) {
    commit(NAME, {{"incident.json", "first"}});
    std::filesystem::copy(at(NAME), at("../old"), std::filesystem::copy_options::recursive);
    const auto old_time = std::filesystem::last_write_time(at(NAME + "/MANIFEST"));
    std::filesystem::last_write_time(at("../old/MANIFEST"), old_time);
    ASSERT_TRUE(dir.amend(NAME, BundleFiles{{"incident.json", "second"}}));

    // Killed after the exchange: the old one lies under the twin's name.
    std::filesystem::rename(at("../old"), at(".amend-" + NAME));
    EXPECT_THAT(recover(), ElementsAre("removed .amend-" + NAME + ": old version left over from an amendment"));
    EXPECT_EQ(read(NAME, "incident.json"), "second");

    // Killed before it: the twin is the later one.
    commit("20261121T150406.000Z-crash-python3-1234-000000", {{"incident.json", "first"}});
    rename(NAME, ".amend-" + NAME);
    rename("20261121T150406.000Z-crash-python3-1234-000000", NAME);
    std::filesystem::last_write_time(at(NAME + "/MANIFEST"), old_time);
    EXPECT_THAT(recover(), ElementsAre("finished the amendment of " + NAME));
    EXPECT_EQ(read(NAME, "incident.json"), "second");
    EXPECT_THAT(verify(), IsEmpty());
    EXPECT_THAT(entries(), ElementsAre(NAME));
}

TEST_F(BundleRecover, TwoRenamesInterrupted) {
    commit(NAME, {{"incident.json", "first"}});
    rename(NAME, ".replaced-" + NAME);
    EXPECT_THAT(recover(), ElementsAre("put back " + NAME + ": its amendment was interrupted"));
    EXPECT_EQ(read(NAME, "incident.json"), "first");

    std::filesystem::copy(at(NAME), at(".replaced-" + NAME), std::filesystem::copy_options::recursive);
    ASSERT_TRUE(dir.amend(NAME, BundleFiles{{"incident.json", "second"}}));
    rename(NAME, ".amend-" + NAME);
    EXPECT_THAT(recover(), ElementsAre("finished the amendment of " + NAME,
                                       "removed .replaced-" + NAME + ": old version left over from an amendment"));
    EXPECT_EQ(read(NAME, "incident.json"), "second");
    EXPECT_THAT(entries(), ElementsAre(NAME));
}

// Every system call of commit, amend and remove in turn is the last one: the writer is
// traced and killed at its entry.
TEST_F(BundleRecover, AKillAtAnySystemCall) {
    bool ended = false;
    int calls = 0;
    for (int last = 1; !ended && last < 2000; ++last) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
            ::raise(SIGSTOP);
            live(NAME, true);
            ::_exit(0);
        }
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        if (!WIFSTOPPED(status))
            GTEST_SKIP() << "ptrace is not allowed here";
        ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
        // Stops at entry and at exit: two for each call.
        for (int stops = 0; stops < last * 2 - 1; ++stops) {
            ::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
            ASSERT_EQ(::waitpid(child, &status, 0), child);
            if (WIFEXITED(status)) {
                EXPECT_EQ(WEXITSTATUS(status), 0);
                ended = true;
                break;
            }
        }
        if (!ended) {
            ::kill(child, SIGKILL);
            ASSERT_EQ(::waitpid(child, &status, 0), child);
        }
        calls = last;
        expect_sound();
        if (HasFatalFailure() || HasNonfatalFailure())
            FAIL() << "killed at call " << last;
        if (std::filesystem::exists(at(NAME))) {
            ASSERT_TRUE(dir.remove(NAME));
        }
    }
    EXPECT_TRUE(ended);
    EXPECT_GT(calls, 60);
    RecordProperty("system_calls", calls);
}

TEST_F(BundleRecover, AKillAtAnyMoment) {
    std::mt19937 random(std::random_device{}());
    for (int round = 0; round < 60; ++round) {
        const pid_t child = ::fork();
        ASSERT_GE(child, 0);
        for (int i = 0; child == 0; ++i)
            live(bundle_name({1'795'273'445'000'000'000 + static_cast<std::uint64_t>(i) * 1'000'000}, "crash", "app",
                             static_cast<std::uint32_t>(round + 1), std::to_string(i)),
                 i % 3 == 0);
        ::usleep(static_cast<useconds_t>(std::uniform_int_distribution<int>(0, 15'000)(random)));
        ::kill(child, SIGKILL);
        int status = 0;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_TRUE(WIFSIGNALED(status)) << "the writer itself failed";
        expect_sound();
        if (HasFailure())
            FAIL() << "round " << round;
        for (const std::string &entry : entries())
            std::filesystem::remove_all(at(entry));
    }
}

} // namespace
} // namespace incident::capture
