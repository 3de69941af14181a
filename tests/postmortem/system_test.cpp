// Child processes, signals, temporary directories, and outputs whose reader goes away.
#include "postmortem/core/temp_dir.h"
#include "postmortem/terminal/child.h"
#include "postmortem/terminal/output.h"
#include "state.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::postmortem::test {

TEST(Child, MissingProgramIsENOENT) {
    const auto child = spawn({"no-such-program-anywhere"});
    ASSERT_FALSE(child);
    EXPECT_EQ(child.error().code, ENOENT);
}

TEST(Child, EnvironmentIsAddedAndReplaced) {
    setenv("INCIDENT_TEST", "old", 1);
    const auto child = spawn({"sh", "-c", "test \"$INCIDENT_TEST\" = new -a -n \"$PATH\""},
                             {.environment = {{"INCIDENT_TEST", "new"}}});
    ASSERT_TRUE(child);
    EXPECT_EQ(*wait_child(*child), 0);
}

TEST(Signals, TerminalInterruptBelongsToTheChild) {
    SignalScope scope;
    const auto child = spawn({"sh", "-c", "kill -INT $PPID; kill -QUIT $PPID; exit 3"});
    ASSERT_TRUE(child);
    const auto status = scope.wait(*child);
    ASSERT_TRUE(status);
    EXPECT_EQ(WEXITSTATUS(*status), 3);
    EXPECT_FALSE(scope.interrupted());
}

TEST(Signals, ChildCanBeInterruptedThoughWeCannot) {
    SignalScope scope;
    const auto child = spawn({"sleep", "100"});
    ASSERT_TRUE(child);
    ASSERT_EQ(kill(*child, SIGINT), 0);
    const auto status = scope.wait(*child);
    ASSERT_TRUE(status);
    EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == SIGINT);
}

TEST(SignalsDeathTest, WhatAskedToStopTakesEffectAfterCleaningUp) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_EXIT(
        {
            {
                SignalScope scope;
                raise(SIGTERM);
                if (scope.interrupted())
                    fputs("still here", stderr);
            }
            _exit(1);
        },
        testing::KilledBySignal(SIGTERM), "still here");
}

TEST(TempDir, IsPrivateAndVanishes) {
    State state;
    setenv("TMPDIR", state.dir().c_str(), 1);
    std::string path;
    {
        const auto dir = TempDir::make();
        ASSERT_TRUE(dir);
        path = dir->path();
        EXPECT_EQ(path.substr(0, state.dir().string().size()), state.dir().string());
        EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms::owner_all);
        write_file(path + "/core", "x");
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    setenv("TMPDIR", (state.dir() / "none").c_str(), 1);
    EXPECT_FALSE(TempDir::make());
    unsetenv("TMPDIR");
}

TEST(FdOutput, ReaderThatLeavesIsNoError) {
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[0]);
    {
        FdOutput out(ends[1]);
        out.line("nobody reads this");
        out.flush();
        EXPECT_TRUE(out.closed());
        EXPECT_TRUE(out.finish());
    }
    close(ends[1]);
}

TEST(FdOutput, FullDeviceIsAnError) {
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (full < 0)
        GTEST_SKIP() << "no /dev/full";
    FdOutput out(full);
    out.line("x");
    const auto finished = out.finish();
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().what, "cannot write the output: No space left on device");
    close(full);
}

TEST(FdOutput, NoTerminalNoColourNoPager) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    {
        FdOutput out(ends[1]);
        out.page();
        out.line(out.tone(Tone::Bad, "text"));
    }
    close(ends[1]);
    char got[16] = {};
    EXPECT_EQ(read(ends[0], got, sizeof got), 5);
    EXPECT_STREQ(got, "text\n");
    close(ends[0]);
}

} // namespace incident::postmortem::test
