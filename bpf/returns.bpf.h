/* SPDX-License-Identifier: GPL-2.0-only
 * Where functions really return to while a probe of their return is pending.
 *
 * A return probe replaces the return address on the user stack by that of the kernel's trampoline; what stood there is
 * kept in a list by task, task->utask->return_instances, innermost call first (kernel/events/uprobes.c,
 * prepare_uretprobe).  `stack` of an entry is where the return address stood: the stack pointer at the function's entry
 * (arch/x86/kernel/uprobes.c, arch_uretprobe_hijack_return_addr).  Probes of several consumers, and functions that end
 * by a jump to another probed one, share a place; each of their entries names the true address (`chained`).  Entries of
 * frames that longjmp() has left stay until the thread's next probed call, so an entry holds only where the
 * trampoline's address stands in the stack.
 *
 * uprobe_task, return_instance and xol_area have the same fields on 6.1 and 6.18, at other offsets. */
#pragma once

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* The innermost call of the task whose return is probed; 0: none. */
static __always_inline struct return_instance *innermost_return(struct task_struct *task)
{
    if (!bpf_core_field_exists(task->utask)) /* a kernel without CONFIG_UPROBES */
        return 0;
    struct uprobe_task *utask = BPF_CORE_READ(task, utask);
    return utask ? BPF_CORE_READ(utask, return_instances) : 0;
}

/* What stands on the stack instead of a return address; 0: no return is probed in this address space. */
static __always_inline __u64 return_trampoline(struct task_struct *task)
{
    struct xol_area *area = BPF_CORE_READ(task, mm, uprobes_state.xol_area);
    return area ? BPF_CORE_READ(area, vaddr) : 0;
}
