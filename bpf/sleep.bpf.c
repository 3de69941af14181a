// SPDX-License-Identifier: GPL-2.0-only
// When the machine woke up last.
//
// power:suspend_resume says "thaw_processes" before the first process runs again (kernel/power/process.c,
// thaw_processes), and no process has run since all were frozen.  So its time parts what was recorded before a sleep
// from what came after, however late the daemon is to look at its clocks.  A sleep that failed thaws as well: whether
// there was one at all, the daemon knows by CLOCK_BOOTTIME.
#include "bpf/maps.bpf.h"

char LICENSE[] SEC("license") = "GPL";

__u64 thawed_ns; /* CLOCK_MONOTONIC; 0: never */

SEC("tp_btf/suspend_resume")
int BPF_PROG(machine_thaws, const char *action, int value, bool start)
{
    __u64 name; /* the first eight letters, which no other action has */
    if (start && bpf_probe_read_kernel(&name, sizeof(name), action) == 0 &&
        __builtin_memcmp(&name, "thaw_processes", sizeof(name)) == 0)
        thawed_ns = bpf_ktime_get_ns();
    return 0;
}
