// The ends of the files that a real process's output goes to.
#include "capture/collect/collect_logs.h"
#include "capture/os/process_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

namespace incident::capture {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class CollectLogs : public testing::Test {
protected:
    CollectLogs() {
        char path[] = "/tmp/incidentd-logs-XXXXXX";
        root = ::mkdtemp(path);
    }
    ~CollectLogs() override {
        if (child > 0) {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        }
        fs::remove_all(root);
    }

    // A process with this output, that waits for its end.
    void run(const std::string &out, const std::string &err, const std::string &jail = "",
             int flags = O_WRONLY | O_APPEND | O_NONBLOCK) {
        int ready[2];
        ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
        child = ::fork();
        ASSERT_GE(child, 0);
        if (child == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            int number = 1;
            for (const std::string &path : {out, err}) {
                const int fd = ::open(path.c_str(), flags | O_CLOEXEC);
                if (path.empty())
                    ::close(number);
                else if (fd < 0 || ::dup2(fd, number) < 0)
                    ::_exit(1);
                ++number;
            }
            if (!jail.empty() && ::chroot(jail.c_str()) != 0)
                ::_exit(1);
            if (::write(ready[1], "", 1) != 1)
                ::_exit(1);
            for (;;)
                ::pause();
        }
        ::close(ready[1]);
        char byte;
        ASSERT_EQ(::read(ready[0], &byte, 1), 1);
        ::close(ready[0]);
    }

    Outcome collect(const std::string &suffix = ".log") {
        const OsRoots os;
        const auto dir = ProcessDir::open(os, static_cast<std::uint32_t>(child));
        EXPECT_TRUE(dir);
        return collect_logs(
            dir->live(), {{static_cast<std::uint32_t>(child), {}}, 0},
            [suffix, this](const std::string &path) {
                asked.push_back(path);
                return path.ends_with(suffix);
            },
            Deadline(std::chrono::seconds(30)));
    }

    static std::map<std::string, std::string> files(const Outcome &outcome) {
        return {outcome.files.begin(), outcome.files.end()};
    }

    std::string write(const std::string &name, const std::string &text) {
        std::ofstream(root + "/" + name, std::ios::binary) << text;
        return root + "/" + name;
    }

    std::string root;
    pid_t child = -1;
    std::vector<std::string> asked;
};

TEST_F(CollectLogs, AreThoseThatARuleNames) {
    run(write("out.txt", "not asked for\n"), write("err.log", "said\n\x1b[31m\xff\n"));
    const Outcome outcome = collect();
    EXPECT_TRUE(outcome.ok) << outcome.error;
    EXPECT_EQ(files(outcome), (std::map<std::string, std::string>{{"process/stderr", "said\n\x1b[31m\xff\n"}}));
    EXPECT_THAT(asked, testing::ElementsAre(root + "/out.txt", root + "/err.log"));
}

TEST_F(CollectLogs, AreTheEndsFromTheBeginningOfALineOn) {
    std::string text;
    for (int i = 0; i < 20'000; ++i)
        text += "line " + std::to_string(i) + "\n";
    run(write("out.log", text), write("err.log", "password=" + std::string(log_tail_max, 'x')));
    const Outcome outcome = collect();
    const auto found = files(outcome);
    const std::string &out = found.at("process/stdout");
    EXPECT_LE(out.size(), log_tail_max);
    EXPECT_GT(out.size(), log_tail_max - 20);
    EXPECT_TRUE(out.starts_with("line ")) << out.substr(0, 20);
    EXPECT_TRUE(text.ends_with(out));
    EXPECT_FALSE(found.contains("process/stderr")) << "redaction would not know what it is the end of";
    EXPECT_EQ(outcome.error, "stderr: " + root + "/err.log: left out: its last line is longer than 64 KiB");
    write("err.log", std::string(log_tail_max - 1, 'x') + "\n");
    EXPECT_EQ(files(collect()).at("process/stderr").size(), log_tail_max) << "one whole line";
    write("err.log", std::string(log_tail_max, 'x') + "\n");
    EXPECT_FALSE(files(collect()).contains("process/stderr"));
}

TEST_F(CollectLogs, WhatIsOpenOnlyAsAPathIsNotRead) {
    const std::string secret = write("out.log", "a secret\n");
    fs::permissions(secret, fs::perms::owner_read | fs::perms::owner_write);
    run(secret, "", "", O_PATH);
    const Outcome outcome = collect();
    EXPECT_FALSE(outcome.ok);
    EXPECT_THAT(outcome.error, HasSubstr("stdout: " + secret + ": the process has it open only as a path"));
    EXPECT_TRUE(outcome.files.empty());
}

TEST_F(CollectLogs, WhatIsOpenForReadingIsRead) {
    run(write("out.log", "said\n"), "", "", O_RDONLY);
    EXPECT_EQ(files(collect()).at("process/stdout"), "said\n");
}

TEST_F(CollectLogs, AreByTheirPathsBelowTheProcesssRoot) {
    if (::geteuid() != 0)
        GTEST_SKIP() << "needs root, to change a process's root";
    fs::create_directories(root + "/jail/var/log");
    run(write("jail/var/log/out.log", "inside\n"), write("outside.log", "outside\n"), root + "/jail");
    const Outcome outcome = collect();
    EXPECT_THAT(asked, testing::ElementsAre("/var/log/out.log"));
    EXPECT_EQ(outcome.error, "stderr: " + root + "/outside.log: is outside of the process's root");
    EXPECT_EQ(files(outcome), (std::map<std::string, std::string>{{"process/stdout", "inside\n"}}));
}

TEST_F(CollectLogs, AnotherFileAtThePathIsNotRead) {
    run(write("out.log", "its own\n"), write("err.log", "its own\n"));
    const std::string secret = write("secret", "a secret\n");
    fs::remove(root + "/out.log");
    fs::rename(root + "/err.log", root + "/moved.log.1");
    fs::create_symlink(secret, root + "/err.log");
    const Outcome outcome = collect();
    EXPECT_FALSE(outcome.ok);
    EXPECT_THAT(outcome.error, HasSubstr("stdout: " + root + "/out.log: was removed"));
    EXPECT_TRUE(outcome.files.empty()) << "it is not named any more, since it was renamed";

    // What stood at the path was exchanged, and the process still has the old file's name.
    fs::remove(root + "/err.log");
    const Outcome renamed = collect(".1");
    EXPECT_EQ(files(renamed).at("process/stderr"), "its own\n");
    fs::create_hard_link(root + "/moved.log.1", root + "/keeps-it");
    fs::remove(root + "/moved.log.1");
    fs::create_symlink(secret, root + "/moved.log.1");
    const Outcome swapped = collect(".1");
    EXPECT_FALSE(swapped.ok);
    EXPECT_THAT(swapped.error, HasSubstr("stderr: "));
    EXPECT_TRUE(swapped.files.empty());
}

TEST_F(CollectLogs, WhatIsNoFileIsNotTouched) {
    const std::string fifo = root + "/fifo.log";
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    const int reader = ::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    run(fifo, "");
    const Outcome outcome = collect();
    EXPECT_FALSE(outcome.ok);
    EXPECT_EQ(outcome.error, "stdout: " + fifo + ": not a regular file");
    ::close(reader);
}

TEST_F(CollectLogs, AreAmongWhatIsCollectedOfAProcess) {
    run(write("out.log", "said\n"), "");
    const OsRoots os;
    const auto dir = ProcessDir::open(os, static_cast<std::uint32_t>(child));
    ASSERT_TRUE(dir);
    const auto stat = dir->stat();
    ASSERT_TRUE(stat);
    CollectLimits limits;
    limits.deadline = std::chrono::seconds(30);
    const ProcessRef process{static_cast<std::uint32_t>(child), {stat->start_ticks * 10'000'000}};
    Collected without;
    collect_process(os, process, limits, without);
    EXPECT_EQ(without.file("process/stdout"), nullptr) << "no rule asks for it";
    limits.wants_log = [](const std::string &) { return true; };
    Collected with;
    collect_process(os, process, limits, with);
    ASSERT_NE(with.file("process/stdout"), nullptr);
    EXPECT_EQ(*with.file("process/stdout"), "said\n");
}

} // namespace
} // namespace incident::capture
