// Waiting for a core that is still being written: what a terminal shows, and what is said at the end.
#include "postmortem/core/core_find.h"
#include "postmortem/core/core_progress.h"
#include "state.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::postmortem::test {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

class Terminal : public StringOutput {
public:
    bool terminal() const override { return true; }
};

constexpr const char *boot = "0123456789abcdef0123456789abcdef";

// A process that calls itself this and holds an unnamed file of so many bytes in a directory.
class Writer {
public:
    Writer(const char *comm, const std::string &directory, std::size_t bytes) {
        int ready[2];
        EXPECT_EQ(pipe(ready), 0);
        child_ = fork();
        if (child_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            prctl(PR_SET_NAME, comm);
            const int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
            const bool made = file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) == 0;
            (void)!write(ready[1], made ? "y" : "n", 1);
            for (;;)
                pause();
        }
        char answer = 'n';
        EXPECT_EQ(read(ready[0], &answer, 1), 1);
        made = answer == 'y';
        close(ready[0]), close(ready[1]);
    }
    Writer(const Writer &) = delete;
    ~Writer() {
        kill(child_, SIGKILL);
        waitpid(child_, nullptr, 0);
    }
    bool made = false; // the file system can do it

private:
    pid_t child_ = -1;
};

} // namespace

class CoreWait : public testing::Test {
protected:
    void SetUp() override {
        state.add_sample("crash");
        os.coredump = (state.dir() / "coredump").string();
        os.coredump_owner = geteuid();
        std::filesystem::create_directory(os.coredump);
        death.boot_id = boot;
        death.process.pid = 4242;
    }
    // Not there so often, then there.
    CoreFinder pending(int times) {
        return [this, left = times](const capture::DeathIdentity &) mutable -> Result<capture::CoreLink> {
            if (left-- > 0)
                return capture::CoreLink{.reason = "under way", .pending = true};
            return capture::CoreLink{.join = capture::Join::Exact, .file = os.coredump + "/core"};
        };
    }
    LocatedCore await(std::chrono::nanoseconds patience, const std::function<bool()> &interrupted = {}) {
        const auto incident = Incident::parse(sample_incident("crash").dump(), "crash");
        EXPECT_TRUE(incident);
        Session session{.out = out, .err = err, .find_core = find, .os = os};
        return await_core(*incident, session, patience, interrupted);
    }
    State state;
    capture::OsRoots os;
    capture::DeathIdentity death;
    CoreFinder find;
    StringOutput out;
    Terminal err;
};

TEST_F(CoreWait, ATerminalShowsHowLongAndHowFar) {
    write_file(os.coredump + "/core", "core");
    write_file(os.coredump + "/.#core.victim.1000." + boot + ".4242.1795273445000000a1b2c3d4",
               std::string(3u << 20, 'x'));
    find = pending(2);
    EXPECT_TRUE(await(std::chrono::seconds(30)).usable());
    EXPECT_THAT(err.text(), StartsWith("\rwaiting for systemd-coredump to finish the core … 0 s of at most 30 s, "
                                       "3.0 MiB written so far\x1b[K"));
    EXPECT_TRUE(err.text().ends_with("\r\x1b[K")); // gone at the end
}

TEST_F(CoreWait, NothingIsShownWhereThereIsNothingToWaitFor) {
    write_file(os.coredump + "/core", "core");
    find = pending(0);
    EXPECT_TRUE(await(std::chrono::seconds(30)).usable());
    EXPECT_EQ(err.text(), "");
}

TEST_F(CoreWait, TheEndOfPatienceIsExplained) {
    find = pending(1000);
    EXPECT_EQ(await(std::chrono::milliseconds(10)).why_not(),
              "under way; systemd-coredump has not finished it within 10 ms (--wait TIME waits longer)");
    write_file(os.coredump + "/.#core.victim.1000." + boot + ".4242.1795273445000000a1b2c3d4", std::string(2048, 'x'));
    EXPECT_EQ(await(std::chrono::milliseconds(10)).why_not(),
              "under way; systemd-coredump has not finished it within 10 ms, 2.0 KiB written so far (--wait TIME waits "
              "longer)");
    EXPECT_EQ(await(std::chrono::seconds(30), [] { return true; }).why_not(),
              "under way; waiting for systemd-coredump was interrupted");
}

TEST_F(CoreWait, OfNamedFilesOnlyThatOfThisDeathCounts) {
    const auto file = [&](const std::string &name) { write_file(os.coredump + "/" + name, std::string(100, 'x')); };
    file(std::string(".#core.victim.1000.") + boot + ".42421.1795273445000000a1b2c3d4");
    file(".#core.victim.1000.ffffffffffffffffffffffffffffffff.4242.1795273445000000a1b2c3d4");
    file(std::string("core.victim.1000.") + boot + ".4242.1795273445000000.zst");
    os.proc = os.coredump; // nobody writes
    EXPECT_EQ(core_bytes_so_far(death, os), std::nullopt);
    write_file(os.coredump + "/.#core.victim.1000." + boot + ".4242.1795273445000000.zsta1b2", std::string(70, 'x'));
    EXPECT_EQ(core_bytes_so_far(death, os), 70u);
    os.coredump = "/nonexistent";
    EXPECT_EQ(core_bytes_so_far(death, os), std::nullopt);
}

TEST_F(CoreWait, AnUnnamedFileIsSeenAmongTheWritersDescriptors) {
    const Writer other("somebody-else", os.coredump, 5000);
    if (!other.made)
        GTEST_SKIP() << "no O_TMPFILE in " << os.coredump;
    EXPECT_EQ(core_bytes_so_far(death, os), std::nullopt);
    const Writer writer("systemd-coredump", os.coredump, 123456);
    EXPECT_EQ(core_bytes_so_far(death, os), 123456u);
    const Writer second("systemd-coredump", os.coredump, 99);
    EXPECT_EQ(core_bytes_so_far(death, os), std::nullopt) << "which of the two?";
}

} // namespace incident::postmortem::test
