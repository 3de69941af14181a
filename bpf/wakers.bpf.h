/* SPDX-License-Identifier: GPL-2.0-only
 * Who woke a thread that had long been waiting: noted in the waker's context (sched.bpf.c),
 * reported by the one that waited (sched.bpf.c, syscall_rules.bpf.c). */
#pragma once

#include "bpf/returns.bpf.h"
#include "bpf/trigger.bpf.h"

struct waker {
    __u64 woken_ns;
    __u64 off_ns; /* of the wait it ended */
    __u64 start_boot_ns;
    __u32 tgid, tid;
    char comm[COMM_LEN];
    __u32 sleeper_frames, kernel_frames, user_frames, pad;
    __u64 sleeper_stack[KERNEL_FRAMES];
    __u64 kernel_stack[KERNEL_FRAMES];
    __u64 user_stack[KERNEL_FRAMES];
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1024);
    __type(key, __u32); /* tid of the one that waited */
    __type(value, struct waker);
} wakers __weak SEC(".maps");

/* A chain of frame pointers does not tell at which place of the stack a return address stood, so what a return probe
 * has replaced cannot be looked up: before 6.11, from when on the kernel puts it back itself
 * (kernel/events/callchain.c, fixup_uretprobe_trampoline_entries), the current thread's stack ends there. */
static __noinline int end_at_trampoline(struct waker *waker)
{
    struct task_struct *task = bpf_get_current_task_btf();
    if (!waker || !innermost_return(task))
        return 0;
    __u64 trampoline = return_trampoline(task);
    __u32 frames = waker->user_frames;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < KERNEL_FRAMES; i++) {
        if (i < frames && waker->user_stack[i] == trampoline) {
            waker->user_frames = i;
            return 0;
        }
    }
    return 0;
}

static __always_inline void fill_wait(struct blocked_trigger *trigger, struct thread_slot *thread, __u32 tid)
{
    trigger->from_ns = thread->blocked_from_ns;
    trigger->until_ns = thread->blocked_until_ns;
    trigger->state = thread->off_state;
    trigger->woken_ns = 0;
    trigger->waker_start_boot_ns = 0;
    trigger->waker_tgid = 0;
    trigger->waker_tid = 0;
    trigger->waker_comm[0] = 0;
    trigger->kernel_frames = 0;
    trigger->waker_kernel_frames = 0;
    trigger->waker_user_frames = 0;
    trigger->pad = 0;
    struct waker *waker = bpf_map_lookup_elem(&wakers, &tid);
    if (!waker || waker->off_ns != thread->blocked_from_ns)
        return;
    trigger->woken_ns = waker->woken_ns;
    trigger->waker_start_boot_ns = waker->start_boot_ns;
    trigger->waker_tgid = waker->tgid;
    trigger->waker_tid = waker->tid;
    __builtin_memcpy(trigger->waker_comm, waker->comm, COMM_LEN);
    trigger->kernel_frames = waker->sleeper_frames;
    trigger->waker_kernel_frames = waker->kernel_frames;
    trigger->waker_user_frames = waker->user_frames;
    __builtin_memcpy(trigger->kernel_stack, waker->sleeper_stack, sizeof(trigger->kernel_stack));
    __builtin_memcpy(trigger->waker_kernel_stack, waker->kernel_stack, sizeof(trigger->waker_kernel_stack));
    __builtin_memcpy(trigger->waker_user_stack, waker->user_stack, sizeof(trigger->waker_user_stack));
}
