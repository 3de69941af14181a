// Whom incidentd would never signal, and what else keeps it from it.
#include "daemon/dump/dumper.h"

#include "capture/os/proc_stat.h"
#include "daemon/os/clocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::daemon {
namespace {

using testing::HasSubstr;

class Child {
public:
    Child() : pid_(::fork()) {
        if (pid_ == 0) {
            ::pause();
            ::_exit(0);
        }
    }
    ~Child() {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    std::uint32_t pid() const { return static_cast<std::uint32_t>(pid_); }
    bool lives() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

private:
    pid_t pid_;
};

// Its start time in ns: any within the clock tick that /proc tells.
std::uint64_t start_ns_of(std::uint32_t pid) {
    std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto stat = capture::parse_proc_stat(text);
    const auto tick = 1'000'000'000ull / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    return stat ? stat->start_ticks * tick : 0;
}

rules::ProcessFacts facts(std::uint32_t pid) {
    rules::ProcessFacts process;
    process.pid = pid;
    process.start_boot_ns = start_ns_of(pid);
    process.comm = "app";
    process.exe = "/usr/bin/app";
    process.cgroup = "/system.slice/app.service";
    process.unit = "app.service";
    return process;
}

rules::Config::Safety allowed() {
    rules::Config::Safety safety;
    safety.allow_dump = true;
    return safety;
}

TEST(Dumper, NothingIsSignalledUnlessAllowed) {
    const Child child;
    Dumper dumper({}, {});
    const auto record = dumper.dump({SIGABRT, false}, facts(child.pid()), {}, 1, 1);
    EXPECT_TRUE(record.asked);
    EXPECT_FALSE(record.sent);
    EXPECT_THAT(record.refused, HasSubstr("allow_dump"));
    EXPECT_TRUE(child.lives());
}

TEST(Dumper, NeverPidOneItselfNobodyOrAKernelThread) {
    const Dumper dumper({}, allowed());
    rules::ProcessFacts process;
    EXPECT_THAT(dumper.forbidden(process), HasSubstr("no process"));
    process.pid = 1;
    EXPECT_THAT(dumper.forbidden(process), HasSubstr("pid 1"));
    process.pid = static_cast<std::uint32_t>(::getpid());
    EXPECT_THAT(dumper.forbidden(process), HasSubstr("itself"));
    process.pid = 2; // kthreadd, where there is one to be seen
    if (std::ifstream("/proc/2/status")) {
        EXPECT_THAT(dumper.forbidden(process), HasSubstr("kernel threads"));
    }
}

TEST(Dumper, NeverWhatIsNamedByCommExeOrUnit) {
    const Child child;
    for (const char *pattern : {"app", "/usr/bin/*", "app.service", "system.slice"}) {
        auto safety = allowed();
        safety.never = {pattern};
        EXPECT_THAT(Dumper({}, safety).forbidden(facts(child.pid())), HasSubstr("never")) << pattern;
    }
    auto safety = allowed();
    safety.never = {"nobody"};
    EXPECT_EQ(Dumper({}, safety).forbidden(facts(child.pid())), "");
}

TEST(Dumper, AReusedPidIsNotTheProcess) {
    const Child child;
    auto process = facts(child.pid());
    process.start_boot_ns += 60'000'000'000;
    Dumper dumper({}, allowed());
    const auto record = dumper.dump({SIGABRT, false}, process, {}, 1, 1);
    EXPECT_FALSE(record.sent);
    EXPECT_THAT(record.refused, HasSubstr("another's"));
    EXPECT_TRUE(child.lives());
}

TEST(Dumper, AnotherProgramOfTheProcessIsNotWhatTheRuleSaid) {
    const Child child;
    Dumper dumper({}, allowed());
    const auto record = dumper.dump({SIGABRT, false}, facts(child.pid()), {0x1000, 0x2000}, 1, 1);
    EXPECT_FALSE(record.sent);
    EXPECT_THAT(record.refused, HasSubstr("executed another program"));
    EXPECT_TRUE(child.lives());
    EXPECT_EQ(dumper.hour().left(2), allowed().dumps_per_hour);
}

TEST(Dumper, AProcessThatIsGone) {
    rules::ProcessFacts process;
    {
        const Child child;
        process = facts(child.pid());
    }
    const auto record = Dumper({}, allowed()).dump({SIGABRT, false}, process, {}, 1, 1);
    EXPECT_FALSE(record.sent);
    EXPECT_THAT(record.refused, HasSubstr("gone"));
}

TEST(Dumper, TheProcessIsAskedAsItIsNow) {
    const Child child;
    auto safety = allowed();
    safety.never = {"*daemon_test*"}; // its executable; what is known of it from before says another
    Dumper dumper({}, safety);
    auto record = dumper.dump({SIGABRT, false}, facts(child.pid()), {}, 1, 1);
    EXPECT_THAT(record.refused, HasSubstr("never"));
    Dumper other({}, allowed());
    record = other.dump({SIGABRT, false}, facts(child.pid()), {}, 1, 1,
                        [](const rules::ProcessFacts &now) { return "it is " + now.exe + " now"; });
    EXPECT_THAT(record.refused, HasSubstr("daemon_test now"));
    EXPECT_FALSE(record.sent);
    EXPECT_EQ(other.hour().left(2), safety.dumps_per_hour) << "nothing was taken of the hour";
    EXPECT_TRUE(child.lives());
}

} // namespace
} // namespace incident::daemon
