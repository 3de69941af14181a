#include "capture/core/core_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace incident::capture {
namespace {

using testing::HasSubstr;

const std::string DEBIAN = "|/lib/systemd/systemd-coredump %P %u %g %s %t 9223372036854775808 %h %d\n";
const std::string UPSTREAM = "|/usr/lib/systemd/systemd-coredump %P %u %g %s %t %c %h\n";

CorePrecheck facts() {
    CorePrecheck f;
    f.signal = SIGSEGV;
    f.pid = 1234;
    f.core_pattern = DEBIAN;
    return f;
}

template <typename Change> std::string reason(Change change) {
    CorePrecheck f = facts();
    change(f);
    return no_core_reason(f);
}

TEST(CorePrecheck, NothingSpeaksAgainstAPlainCrash) {
    EXPECT_EQ(no_core_reason(facts()), "");
    EXPECT_EQ(reason([](auto &f) { f.core_pattern = ""; }), "") << "not known";
    for (const int signal : {SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGSEGV, SIGBUS, SIGSYS, SIGXCPU, SIGXFSZ})
        EXPECT_EQ(reason([&](auto &f) { f.signal = signal; }), "") << signal;
}

TEST(CorePrecheck, SignalsThatMakeNone) {
    EXPECT_EQ(reason([](auto &f) { f.signal = SIGKILL; }), "SIGKILL makes no core");
    EXPECT_EQ(reason([](auto &f) { f.signal = SIGTERM; }), "SIGTERM makes no core");
    EXPECT_EQ(reason([](auto &f) { f.signal = 40; }), "signal 40 makes no core");
}

TEST(CorePrecheck, TheLimitCountsOnlyWhereItDoes) {
    EXPECT_EQ(reason([](auto &f) { f.rlimit_core = 0; }), "") << "to a pipe, and Debian's pattern passes its own";
    EXPECT_THAT(reason([](auto &f) { f.rlimit_core = 1; }), HasSubstr("RLIMIT_CORE is 1"));
    EXPECT_EQ(reason([](auto &f) {
                  f.rlimit_core = 0;
                  f.core_pattern = UPSTREAM;
              }),
              "RLIMIT_CORE is 0: systemd-coredump logs the crash and stores no core");
    EXPECT_EQ(reason([](auto &f) { f.core_pattern = UPSTREAM; }), "");
}

TEST(CorePrecheck, NotDumpable) {
    EXPECT_THAT(reason([](auto &f) { f.dumpable = 0; }), HasSubstr("not dumpable"));
    EXPECT_EQ(reason([](auto &f) { f.dumpable = 2; }), "") << "a pipe is safe enough";
    EXPECT_THAT(reason([](auto &f) {
                    f.dumpable = 2;
                    f.core_pattern = "core\n";
                }),
                HasSubstr("dumpable for root only"));
}

TEST(CorePrecheck, AnotherHandler) {
    const auto pattern = [](const std::string &text) { return reason([&](auto &f) { f.core_pattern = text; }); };
    EXPECT_EQ(pattern("core\n"), "kernel.core_pattern writes cores to files (\"core\"), not to systemd-coredump");
    EXPECT_EQ(pattern("|/usr/share/apport/apport -p%p\n"),
              "kernel.core_pattern hands cores to /usr/share/apport/apport, not to systemd-coredump");
    EXPECT_THAT(pattern("\n"), HasSubstr("is empty"));
    EXPECT_THAT(pattern("@/run/other.sock\n"), HasSubstr("to a socket (@/run/other.sock)"));
    EXPECT_EQ(pattern("@@/run/systemd/coredump\n"), "");
    EXPECT_THAT(pattern("|/bin/false"), HasSubstr("/bin/false"));
}

TEST(CorePrecheck, TheKernelSaidSo) {
    const std::string limit = "the kernel skipped it: over kernel.core_pipe_limit, too many dumps at once";
    const auto log = [](const std::string &text, std::uint32_t ns_pid = 0) {
        return reason([&](auto &f) {
            f.kernel_log = text;
            f.ns_pid = ns_pid;
        });
    };
    EXPECT_EQ(log("[1.000000] <4> Pid 1234(app) over core_pipe_limit\n[1.000001] <4> Skipping core dump\n"), limit);
    EXPECT_EQ(log("[1.000000] <4> coredump: 1234(app): over core_pipe_limit, skipping core dump\n"), limit);
    EXPECT_EQ(log("[1.000000] <4> coredump: 1234(a): b): over core_pipe_limit, skipping core dump"), limit);
    const auto died_at = [&](std::uint64_t us) {
        return reason([&](auto &f) {
            f.kernel_log = "[100.500000] <4> Pid 1234(app) over core_pipe_limit\n";
            f.died.ns = us * 1000;
        });
    };
    EXPECT_EQ(died_at(100'000'000), limit);
    EXPECT_EQ(died_at(101'000'000), limit) << "the log's clock is another one";
    EXPECT_EQ(died_at(200'000'000), "") << "an earlier process of that number";
    EXPECT_EQ(log("[1.000000] <4> coredump: 1234(app): |/lib/x pipe failed\n"),
              "the kernel reported: |/lib/x pipe failed");
    EXPECT_EQ(log("[1.000000] <4> Pid 7(app) over core_pipe_limit\n", 7), limit) << "the pid of its own namespace";
    EXPECT_EQ(log("[1.000000] <4> Pid 1234(app) over core_pipe_limit\n", 7), "") << "somebody else's";
}

TEST(CorePrecheck, AHandlerThatCouldNotBeStartedIsAHint) {
    const std::string line = "[100.500000] <6> Core dump to |/lib/systemd/systemd-coredump pipe failed\n";
    const auto hint = [](const std::string &log, std::uint64_t died_s) {
        CorePrecheck f = facts();
        f.kernel_log = log;
        f.died.ns = died_s * 1'000'000'000;
        EXPECT_EQ(no_core_reason(f), "") << "it may be of another process";
        return no_handler_hint(f);
    };
    EXPECT_THAT(hint(line, 100), HasSubstr("could not start the handler"));
    EXPECT_THAT(hint(line, 91), HasSubstr("could not start the handler"));
    EXPECT_EQ(hint(line, 90), "") << "long after";
    EXPECT_EQ(hint(line, 102), "") << "before";
    EXPECT_EQ(hint("[100.500000] <14> Core dump to |/x pipe failed\n", 100), "") << "a program wrote it";
    EXPECT_EQ(hint("[100.500000] <6> Core dump to |/x aborted\n", 100), "");
}

TEST(CorePrecheck, NobodyElsesWordsCount) {
    const auto log = [](const std::string &text) { return reason([&](auto &f) { f.kernel_log = text; }); };
    for (const char *line :
         {"[1.000000] <4> Pid 12345(app) over core_pipe_limit\n", "[1.000000] <4> Pid 123(app) over core_pipe_limit\n",
          "[1.000000] <12> Pid 1234(app) over core_pipe_limit\n", // written to /dev/kmsg by a program
          "[1.000000] <4> evil: Pid 1234(app) over core_pipe_limit\n", "Pid 1234(app) over core_pipe_limit\n",
          "[1.000000] <4> Pid 1234() over core_pipe_limit) did something else\n", "[1.000000] <> Pid 1234(",
          // What a process makes the kernel say that has this number in a pid namespace of its own.
          "[1.000000] <4> Process 1234(app) has RLIMIT_CORE set to 1\n",
          "[1.000000] <4> coredump: 1234(app): RLIMIT_CORE is set to 1, aborting core\n",
          "[1.000000] <4> coredump: 1234(app)\n", "] <", "] <4>", ""})
        EXPECT_EQ(log(line), "") << line;
}

TEST(CorePrecheck, NobodyListens) {
    EXPECT_EQ(reason([](auto &f) { f.listener = false; }),
              "nothing listens on /run/systemd/coredump (is systemd-coredump.socket active?)");
    char path[] = "/tmp/incidentd-test-XXXXXX";
    OsRoots os;
    os.proc = ::mkdtemp(path);
    std::filesystem::create_directories(os.proc + "/1/net");
    const auto listens = [&](const std::string &line) {
        std::ofstream(os.proc + "/1/net/unix") << "Num       RefCount Protocol Flags    Type St Inode Path\n"
                                               << line << "\n";
        return coredump_socket_listens(os);
    };
    EXPECT_TRUE(listens("00000000a: 00000002 00000000 00010000 0005 01 36720 /run/systemd/coredump"));
    EXPECT_FALSE(listens("00000000a: 00000003 00000000 00000000 0005 03 36720 /run/systemd/coredump"))
        << "a connection";
    EXPECT_FALSE(listens("00000000a: 00000002 00000000 00010000 0005 01 36720 @/run/systemd/coredump")) << "abstract";
    EXPECT_FALSE(listens("00000000a: 00000002 00000000 00010000 0005 01 36720 /tmp/run/systemd/coredump"));
    EXPECT_FALSE(listens(""));
    std::filesystem::remove_all(os.proc);
    EXPECT_FALSE(coredump_socket_listens(os));
}

} // namespace
} // namespace incident::capture
