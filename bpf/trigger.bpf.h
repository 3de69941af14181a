/* SPDX-License-Identifier: GPL-2.0-only
 * What the programs of the rule kinds share: who a trigger is about, whether its rules
 * want it, and the capture of a thread that goes on living, in its own context.
 *
 * The kernel side only sifts: a trigger is sent where some condition may hold, and the
 * engine checks the whole rule.  A capture is costly (microseconds, and room in the ring
 * buffer), so there is a number a second; beyond it the trigger comes alone and the daemon
 * looks at the process from outside. */
#pragma once

#include "bpf/capture.bpf.h"
#include "bpf/dump.bpf.h"
#include "bpf/own_cost.bpf.h"

/* What a program on a classic tracepoint returns.  With 0 from one of a tracepoint's programs the kernel drops
 * the hit for whoever else has it open through perf (kernel/trace/bpf_trace.c, trace_call_bpf). */
#define SEEN_BY_OTHERS 1

/* The current thread's slot where it is recorded; 0 otherwise. */
static __always_inline struct thread_slot *slot_of_tid(__u32 tid, __u32 *index)
{
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry)
        return 0;
    __u32 slot = *entry - 1;
    if (slot >= slots)
        return 0;
    *index = slot;
    return bpf_map_lookup_elem(&threads, &slot);
}

/* Conditions of that generation that may be about a task: none where it has been decided that no rule is about its
 * process, all where nothing has been decided yet. */
static __always_inline __u64 rules_of_task(struct task_struct *task, __u32 generation)
{
    __u32 tid = BPF_CORE_READ(task, pid), epoch = watch_epoch & SLOT_EPOCH;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry)
        return ~0ULL;
    __u32 value = *entry, slot = value - 1;
    if (value == (SLOT_IGNORED | epoch))
        return 0;
    struct thread_slot *thread = 0;
    if (slot < slots)
        thread = bpf_map_lookup_elem(&threads, &slot);
    return thread && thread->epoch == epoch ? bits_of(thread, generation) : ~0ULL;
}

/* rules: bits of that generation. */
static __always_inline void fill_trigger(struct trigger_head *trigger, __u32 kind, struct task_struct *task,
                                         __u64 rules, __u32 generation)
{
    fill_header(&trigger->h, EVENT_TRIGGER, task);
    trigger->kind = kind;
    trigger->captured = 0;
    trigger->rules = rules;
    trigger->dumped = 0;
    trigger->dump_bit = 0;
    trigger->generation = generation;
    make_watch_key(task, &trigger->key, generation);
    copy_comm(trigger->comm, task);
}

/* Does a single match of any of these make a firing, and is there a capture left for the user of the task?  That is as
 * many as she has had in this second: what one user takes all she can get of is half of what there is. */
static __always_inline int may_capture(struct task_struct *task, __u64 each)
{
    if (!each || capture_tokens <= 0 || !admit_capture(share_of(task), capture_tokens))
        return 0;
    return __sync_fetch_and_add(&capture_tokens, -1) > 0;
}

/* After the trigger has been submitted with captured = 1. */
static __noinline int capture_here(void *ctx, struct task_struct *task)
{
    struct capture capture = {.ctx = ctx, .role = ROLE_TRIGGERED, .slot = ~0u, .event = EVENT_SNAPSHOT};
    __u32 slot = 0;
    struct thread_slot *thread = slot_of_tid(BPF_CORE_READ(task, pid), &slot);
    if (thread)
        capture.slot = slot;
    capture.share = share_of(task);
    capture_process(task, &capture);
    return capture_thread(task, &capture, thread);
}
