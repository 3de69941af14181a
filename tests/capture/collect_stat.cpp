#include "capture/os/proc_stat.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace incident::capture {
namespace {

std::string stat_line(const std::string &comm) {
    return "42 (" + comm + ") S 7 42 42 0 -1 4194560 1043 0 3 0 5 2 0 0 20 0 3 0 123456 2990080 410\n";
}

TEST(ProcStat, SurvivesAnyComm) {
    for (const std::string comm :
         {"bash", "", "a b", "x) S 1 2", "(sd-pam)", "\n", ")", "((", "a\nb) R 0 0 0", "1 2 3 4 5 6 7 8", "\xff\xfe"}) {
        const auto stat = parse_proc_stat(stat_line(comm));
        ASSERT_TRUE(stat) << comm;
        EXPECT_EQ(stat->comm, comm);
        EXPECT_EQ(stat->pid, 42u);
        EXPECT_EQ(stat->ppid, 7u);
        EXPECT_EQ(stat->state, 'S');
        EXPECT_EQ(stat->threads, 3u);
        EXPECT_EQ(stat->start_ticks, 123456u);
    }
}

TEST(ProcStat, RefusesWhatIsCut) {
    const std::string whole = stat_line("app");
    const std::size_t enough = whole.find("123456") + 1; // a number cut is still a number
    for (std::size_t length = 0; length < enough; ++length)
        EXPECT_FALSE(parse_proc_stat(whole.substr(0, length))) << whole.substr(0, length);
    EXPECT_FALSE(parse_proc_stat(") ("));
    EXPECT_FALSE(parse_proc_stat("x (a) S 7 42 42 0 -1 4194560 1043 0 3 0 5 2 0 0 20 0 3 0 123456 1"));
}

TEST(ProcStat, TicksAreCutAsTheKernelCutsThem) {
    const auto tick = 1'000'000'000ull / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    EXPECT_EQ(start_ticks_of(BootTime{0}), 0u);
    EXPECT_EQ(start_ticks_of(BootTime{tick - 1}), 0u);
    EXPECT_EQ(start_ticks_of(BootTime{tick}), 1u);
    EXPECT_EQ(start_ticks_of(BootTime{123456 * tick + tick - 1}), 123456u);
    EXPECT_EQ(start_ticks_of(BootTime{~0ull}), ~0ull / tick);
}

TEST(ProcStat, AgreesWithTheKernelAboutANewProcess) {
    const auto before = BootTime::now();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const auto after = BootTime::now();
    std::stringstream text;
    text << std::ifstream("/proc/" + std::to_string(child) + "/stat").rdbuf();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto stat = parse_proc_stat(text.str());
    ASSERT_TRUE(stat);
    EXPECT_GE(stat->start_ticks, start_ticks_of(before));
    EXPECT_LE(stat->start_ticks, start_ticks_of(after));
}

} // namespace
} // namespace incident::capture
