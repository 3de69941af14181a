// Collects what an OOM kill leaves: the victim's cgroup files before and after, and the lines in which the kernel says
// whom it killed and why.
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/trigger.h"

#include <string_view>

namespace incident::capture {

// The text of /proc/PID/cgroup; "" when the process is gone.
std::string cgroup_of_process(const OsRoots &os, std::uint32_t pid);

// Collects the memory files of these cgroups as bundle files "<directory>/memory.max", …; directory: "cgroup_before" or
// "cgroup_after".
void collect_cgroup_memory(const OsRoots &os, std::string_view proc_cgroup, const std::string &directory,
                           Collected &into);

// Fills constraint, oom_memcg, task_memcg, line and killed from the last kill of that
// process in the kernel log ("[sec.usec] <prio> text" lines):
//   oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=x,pid=12,uid=0
//   Memory cgroup out of memory: Killed process 12 (x) total-vm:…kB, …
// (mm/oom_kill.c, dump_oom_summary and __oom_kill_process; both are rate-limited.)
void read_oom_log(std::string_view kernel_log, std::uint32_t pid, OomTrigger &into);

// The kernel log of the last seconds; "" if it cannot be read.
std::string recent_kernel_log(const OsRoots &os, std::chrono::seconds span);

} // namespace incident::capture
