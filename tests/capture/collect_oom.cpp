// The kernel's words about an OOM kill.
#include "capture/collect/collect_oom.h"

#include <gtest/gtest.h>

namespace incident::capture {
namespace {

constexpr const char *log_text =
    "[12.000001] <6> oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    "task_memcg=/user.slice,task=other,pid=76,uid=0\n"
    "[12.500000] <6> oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/system.slice/a.service,task_memcg=/system.slice/a.service/sub,task=hungry,pid=77,uid=5\n"
    "[12.500100] <3> Memory cgroup out of memory: Killed process 77 (hungry) total-vm:70000kB, anon-rss:50000kB\n"
    "[12.600000] <14> oom-kill:constraint=CONSTRAINT_FAKE,task=x,pid=77,uid=0\n";

TEST(OomLog, FindsTheVictimsLines) {
    OomTrigger oom;
    read_oom_log(log_text, 77, oom);
    EXPECT_EQ(oom.constraint, "CONSTRAINT_MEMCG");
    EXPECT_EQ(oom.oom_memcg, "/system.slice/a.service");
    EXPECT_EQ(oom.task_memcg, "/system.slice/a.service/sub");
    EXPECT_EQ(oom.killed, "Killed process 77 (hungry) total-vm:70000kB, anon-rss:50000kB");
}

TEST(OomLog, AHostsOomHasNoCgroup) {
    OomTrigger oom;
    read_oom_log(log_text, 76, oom);
    EXPECT_EQ(oom.constraint, "CONSTRAINT_NONE");
    EXPECT_EQ(oom.oom_memcg, "");
}

TEST(OomLog, WhatAProgramWroteIsNotTheKernels) {
    OomTrigger oom;
    read_oom_log("[1.0] <14> oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/x,task=x,pid=5,uid=0\n", 5, oom);
    EXPECT_EQ(oom.constraint, "");
}

// Her own process is killed, in a cgroup that she gave a name.
TEST(OomLog, ACgroupsNameIsNobodysDeath) {
    OomTrigger oom;
    read_oom_log(
        "[1.0] <6> oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/u/x,"
        "task_memcg=/u/x,pid=77,uid=0,task=x,pid=77,uid=0,task=x,pid=5,uid=1000\n"
        "[1.1] <6> Tasks in /u/Killed process 77 (x) are going to be killed due to memory.oom.group set\n"
        "[1.2] <3> Memory cgroup out of memory: Killed process 5 (Killed process ) total-vm:1kB\n",
        77, oom);
    EXPECT_EQ(oom.line, "");
    EXPECT_EQ(oom.killed, "");
    read_oom_log("[1.2] <3> Out of memory: Killed process 77 (x) total-vm:1kB\n"
                 "[1.3] <3> Out of memory (oom_kill_allocating_task): Killed process 78 (x) total-vm:1kB\n",
                 77, oom);
    EXPECT_EQ(oom.killed, "Killed process 77 (x) total-vm:1kB");
}

TEST(OomLog, AnotherPidIsAnotherVictim) {
    OomTrigger oom;
    read_oom_log(log_text, 7, oom);
    EXPECT_EQ(oom.line, "");
    EXPECT_EQ(oom.killed, "");
}

} // namespace
} // namespace incident::capture
