#include "capture/collect/collect.h"
#include "capture/os/kernel_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>

namespace incident::capture {
namespace {

using namespace std::chrono_literals;
using testing::AnyOf;
using testing::Eq;
using testing::HasSubstr;

const std::string KMSG = TEST_DATA "/proc-trees/kmsg.txt";

CollectLimits unhurried() { // the machine may be busy
    CollectLimits limits;
    limits.deadline = std::chrono::seconds(60);
    return limits;
}

std::string slice(std::chrono::microseconds since, std::uint64_t cap, bool *cut = nullptr) {
    KernelLog log(since, cap);
    const auto read = read_kernel_log(KMSG, log, {});
    EXPECT_TRUE(read) << read.error().what;
    if (cut)
        *cut = log.cut();
    return log.text();
}

TEST(CollectKernelLog, KeepsWhatIsRecent) {
    EXPECT_EQ(slice(150s, 4096), "[150.000000] <12> user facility is kept with its priority\n"
                                 "[199.000000] <4> Pid 1234(web) over core_pipe_limit\n"
                                 "[200.000001] <30> systemd[1]: with \\x0a escaped\n");
    EXPECT_THAT(slice(0s, 4096), HasSubstr("[1.000000] <6> an old line\n"));
    EXPECT_EQ(slice(std::chrono::microseconds::max(), 4096), "");
}

TEST(CollectKernelLog, TheCapKeepsTheNewest) {
    bool cut = false;
    EXPECT_EQ(slice(0s, 60, &cut), "[200.000001] <30> systemd[1]: with \\x0a escaped\n");
    EXPECT_TRUE(cut);
    EXPECT_EQ(slice(0s, 10, &cut), "");
    EXPECT_TRUE(cut);
}

TEST(CollectKernelLog, AnyBytesAreSafe) {
    KernelLog log(0s, 4096);
    for (const char *record :
         {"", ";", ",", ",,;", "1,2,3", "1,2,3;", "99999999999999999999,1,1,-;x", "1,2,3;\n", "-1,2,3,-;x"})
        log.add(record);
    EXPECT_EQ(log.text(), "") << "\"1,2,3;\" lacks the flags field the kernel always writes";
}

TEST(CollectKernelLog, BeginsEarlierByTheClocksDrift) {
    const auto up = [](std::chrono::nanoseconds time) {
        return MonotonicTime{static_cast<std::uint64_t>(time.count())};
    };
    EXPECT_EQ(kernel_log_since(up(1000s), 60s), 940s - 50ms);
    EXPECT_EQ(kernel_log_since(up(10us), 60s), 0s);
    EXPECT_EQ(kernel_log_since(up(24h * 100), 0s), 24h * 100 - 432s);
}

TEST(CollectKernelLog, OfThisMachine) {
    if (::access("/dev/kmsg", R_OK) != 0)
        GTEST_SKIP() << "/dev/kmsg is not to be read here";
    KernelLog log(0s, 64u << 20);
    const auto read = read_kernel_log("/dev/kmsg", log, {});
    if (!read && read.error().code == EPERM)
        GTEST_SKIP() << read.error().what; // kernel.dmesg_restrict
    ASSERT_TRUE(read) << read.error().what;
    EXPECT_THAT(log.text(), HasSubstr("] <"));
}

TEST(CollectHost, FromATree) {
    OsRoots os;
    os.proc = TEST_DATA "/proc-trees/unified/proc";
    os.dev_kmsg = KMSG;
    Collected into;
    collect_host(os, std::chrono::seconds(1'000'000'000), unhurried(), into);
    for (const CollectorResult &each : into.results)
        EXPECT_TRUE(each.ok) << each.name << ": " << each.error;
    for (const char *path : {"meminfo", "pressure/cpu", "pressure/io", "pressure/memory", "loadavg", "vmstat", "uptime",
                             "version", "buddyinfo", "kernel_log"})
        EXPECT_NE(into.file(std::string("host/") + path), nullptr) << path;
    EXPECT_EQ(*into.file("host/pressure/memory"), "some avg10=0.00 avg60=0.00 avg300=0.00 total=6\n");
    EXPECT_THAT(*into.file("host/kernel_log"), HasSubstr("over core_pipe_limit"));
}

TEST(CollectHost, WhatIsMissingIsSaid) {
    OsRoots os;
    os.proc = TEST_DATA "/proc-trees/hybrid/proc";
    os.dev_kmsg = "/nonexistent/kmsg";
    Collected into;
    collect_host(os, std::chrono::seconds(60), unhurried(), into);
    EXPECT_TRUE(into.files.empty());
    EXPECT_EQ(into.results.size(), 10u);
    for (const CollectorResult &each : into.results) {
        EXPECT_FALSE(each.ok) << each.name;
        EXPECT_THAT(each.error, HasSubstr("No such file or directory"));
    }
}

TEST(CollectHost, OfThisMachine) {
    Collected into;
    collect_host({}, std::chrono::seconds(60), unhurried(), into);
    ASSERT_NE(into.file("host/meminfo"), nullptr);
    EXPECT_THAT(*into.file("host/meminfo"), HasSubstr("MemTotal:"));
    for (const char *path : {"host/loadavg", "host/uptime", "host/version"})
        EXPECT_NE(into.file(path), nullptr) << path;
}

} // namespace
} // namespace incident::capture
