/* SPDX-License-Identifier: GPL-2.0-only
 * Who woke a thread that had long been waiting: noted in the waker's context (sched.bpf.c),
 * reported by the one that waited (sched.bpf.c, syscall_rules.bpf.c). */
#pragma once

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
