// Build-ids of what was mapped, never of what happens to have the same path.
#include "daemon/write/build_ids.h"

#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ProcessBuildIds : public testing::Test {
protected:
    ProcessBuildIds() {
        char path[] = "/tmp/incidentd-test-XXXXXX";
        root = ::mkdtemp(path);
        fs::create_directory(root / "app");
        std::ofstream(root / "source.c") << "int f(void) { return 1; }\n";
        for (const auto &[name, id] : {std::pair("host", "0x1111111111"), {"own", "0x2222222222"}, {"none", "none"}}) {
            const std::string file = (root / name).string();
            const std::string command =
                "cc -shared -o " + file + " -Wl,--build-id=" + id + " " + (root / "source.c").string();
            EXPECT_EQ(std::system(command.c_str()), 0);
        }
        fs::copy(root / "host", root / "app/lib");
    }
    ~ProcessBuildIds() override {
        end();
        fs::remove_all(root);
    }
    void SetUp() override {
        if (::geteuid() != 0)
            GTEST_SKIP() << "needs root, to mount";
    }
    // A process in a mount namespace of its own, where another file stands at app/lib, which it has mapped.
    void start(const std::string &file) {
        int ready[2];
        ASSERT_EQ(::pipe(ready), 0);
        child = ::fork();
        if (child == 0) {
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            const std::string app = (root / "app").string();
            bool ok = ::unshare(CLONE_NEWNS) == 0 &&
                      ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                      ::mount("tmpfs", app.c_str(), "tmpfs", 0, nullptr) == 0;
            std::error_code error;
            ok = ok && fs::copy_file(root / file, app + "/lib", error);
            const int fd = ::open((app + "/lib").c_str(), O_RDONLY);
            ok = ok && ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) != MAP_FAILED;
            if (ok && ::write(ready[1], "x", 1) == 1)
                ::pause();
            ::_exit(1);
        }
        ::close(ready[1]);
        char byte = 0;
        ASSERT_EQ(::read(ready[0], &byte, 1), 1) << "the process could not be made";
        ::close(ready[0]);
        const auto dir = capture::ProcessDir::open({}, static_cast<std::uint32_t>(child));
        start_ns = dir->stat()->start_ticks * 10'000'000; // USER_HZ is 100 wherever Debian runs
        maps = capture::Maps::parse(capture::read_proc_file(dir->fd(), "maps", 16u << 20)->bytes);
    }
    void end() {
        if (child > 0) {
            ::kill(child, SIGKILL);
            ::waitpid(child, nullptr, 0);
        }
        child = -1;
    }
    BuildIds read(const capture::OsRoots &os = {}) const {
        return BuildIds::read(os, {{static_cast<std::uint32_t>(pid()), {start_ns}}, 0}, maps, "/bin/app");
    }
    pid_t pid() const { return child > 0 ? child : ended; }
    std::string of_library(const BuildIds &ids) const {
        const std::string path = (root / "app/lib").string();
        for (const auto &mapping : maps.all())
            if (mapping.path == path)
                return "[" + ids.of(path, mapping.inode) + "]";
        return "not mapped";
    }

    // Its other files are the host's, and stand where they stood.
    void expect_libc(const BuildIds &ids) const {
        const auto libc = std::ranges::find_if(
            maps.all(), [](const auto &mapping) { return mapping.execute && mapping.path.ends_with("/libc.so.6"); });
        if (libc != maps.all().end()) { // not where the test is linked statically
            EXPECT_NE(ids.of(libc->path, libc->inode), "") << ids.result().error;
        }
    }

    fs::path root;
    pid_t child = -1, ended = -1;
    std::uint64_t start_ns = 0;
    capture::Maps maps;
};

TEST_F(ProcessBuildIds, AreOfTheProcesssOwnFiles) {
    start("own");
    const auto ids = read();
    EXPECT_EQ(of_library(ids), "[2222222222]");
    EXPECT_TRUE(ids.result().ok) << ids.result().error;
}

TEST_F(ProcessBuildIds, AreNotTheHostsWhereAFileHasNone) {
    start("none");
    const auto ids = read();
    EXPECT_EQ(of_library(ids), "[]");
    EXPECT_TRUE(ids.result().ok) << ids.result().error;
}

TEST_F(ProcessBuildIds, AreUnknownWhenTheProcessHasTakenItsFilesWithIt) {
    start("own");
    ended = child;
    end();
    const auto ids = read();
    EXPECT_EQ(of_library(ids), "[]");
    EXPECT_FALSE(ids.result().ok);
    EXPECT_THAT(ids.result().error, AllOf(HasSubstr("no build-id of 1 mapped files"),
                                          HasSubstr("app/lib: the process has ended"), HasSubstr("another file")));
    expect_libc(ids);
}

TEST_F(ProcessBuildIds, AreThereOfOneThatIsNotReapedYet) {
    start("own");
    ::kill(child, SIGKILL);
    siginfo_t info{};
    ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0); // a zombie
    const auto ids = read();
    EXPECT_EQ(of_library(ids), "[]");
    expect_libc(ids);
}

TEST_F(ProcessBuildIds, WhatNeverAnswersIsWaitedForNoLongerThanTheDeadline) {
    const fs::path process = root / "proc" / "77";
    fs::create_directories(process);
    ASSERT_EQ(::mkfifo((process / "stat").c_str(), 0600), 0); // nobody ever writes: it is opened for ever
    capture::OsRoots os;
    os.proc = root / "proc";
    const auto ids = BuildIds::read(os, {{77, {1}}, 0}, {}, "/bin/app", std::chrono::milliseconds(20));
    EXPECT_THAT(ids.result().error, HasSubstr("did not answer within 20 ms"));
    const int writer = ::open((process / "stat").c_str(), O_WRONLY | O_CLOEXEC); // lets the reader go
    ::close(writer);
}

} // namespace
} // namespace incident::daemon
