/* SPDX-License-Identifier: GPL-2.0-only
 * What timing a call takes, whether its two ends are a function's or a pair's: the thread's
 * frames, and the report of a call that took too long. */
#pragma once

#include "bpf/calls.bpf.h"
#include "bpf/trigger.bpf.h"

/* How far behind se.sum_exec_runtime may be: a tick at the slowest CONFIG_HZ. */
#define TICK_MAX_NS 10000000LL

/* The current thread's frames; 0: it is not recorded. */
static __always_inline struct thread_calls *my_calls(struct task_struct *task, int enter, struct thread_slot **thread,
                                                     __u32 *slot)
{
    __u32 tid = task->pid;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry)
        return 0;
    __u32 value = *entry, epoch = watch_epoch & SLOT_EPOCH;
    if (value == (SLOT_IGNORED | epoch))
        return 0;
    *slot = value - 1;
    *thread = 0;
    if (*slot < slots)
        *thread = bpf_map_lookup_elem(&threads, slot);
    if (!*thread || (*thread)->epoch != epoch) {
        if (!enter && !*thread)
            return 0;
        if (enter) {
            *thread = decide_slot(task, entry);
            if (!*thread)
                return 0;
            *slot = *entry - 1;
        }
    }
    return bpf_map_lookup_elem(&calls, slot);
}

/* Frames of the slot's former thread are none of this one's. */
static __noinline int begin_calls(struct thread_calls *mine, struct thread_slot *thread, __u32 slot)
{
    if (!mine || !thread)
        return 0;
    STORE(mine->depth, 0);
    STORE(mine->pairs_used, 0);
    mine->on_signal_stack = 0;
    STORE(mine->generation, thread->generation);
    set_listed(mine, slot, 1);
    return 0;
}

static __always_inline void fill_frame(struct call_frame *frame, struct pt_regs *regs, struct task_struct *task,
                                       struct thread_slot *thread, __u32 probe)
{
    frame->sp = regs->sp;
    frame->args[0] = regs->di;
    frame->args[1] = regs->si;
    frame->args[2] = regs->dx;
    frame->args[3] = regs->cx;
    frame->args[4] = regs->r8;
    frame->args[5] = regs->r9;
    frame->syscalls = thread->syscalls;
    frame->exec_ns = task->se.sum_exec_runtime;
    frame->exec_start_ns = task->se.exec_start;
    if (bpf_core_field_exists(task->sched_info))
        frame->run_delay_ns = task->sched_info.run_delay;
    frame->return_address = 0;
    frame->probe = probe;
    frame->above = 0;
    frame->start_ns = bpf_ktime_get_ns();
}

/* The same number, but one the verifier knows nothing of: it would walk the whole capture
 * once for each frame that may have been chosen. */
static __always_inline __u32 any_of(struct thread_calls *mine, __u32 index)
{
    STORE(mine->chosen, index);
    return *(volatile __u32 *)&mine->chosen;
}

static __always_inline int on_signal_stack(struct task_struct *task, __u64 sp)
{
    return sp - task->sas_ss_sp < task->sas_ss_size;
}

/* A thread of the process went over to another stack: its stack pointer orders no calls. */
static __always_inline int switches_stacks(struct task_struct *task)
{
    __u32 tgid = task->tgid;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    return process && process->stacks_switched;
}

struct slow_call {
    struct pt_regs *regs;
    struct thread_slot *thread;
    struct call_frame *frame;
    __u64 now;
    __u32 slot, depth;
    __u32 keyed; /* the call may have been in other threads before */
};

/* elapsed = running + runnable + blocked.  What sum_exec_runtime lacks now and lacked at
 * entry is told by se.exec_start, whose clock differs from ours by a constant that the
 * subtraction cancels; where it does not (moved to a CPU that has spent another time in
 * interrupts), the correction is beyond a tick and is left out. */
static __always_inline void split_time(struct task_struct *task, struct call_frame *frame, struct latency_event *event)
{
    __s64 elapsed = event->elapsed_ns, runnable = 0;
    __s64 late = elapsed - (__s64)(task->se.exec_start - frame->exec_start_ns);
    __s64 running = task->se.sum_exec_runtime - frame->exec_ns;
    if (late > -TICK_MAX_NS && late < TICK_MAX_NS)
        running += late;
    event->split = 0;
    if (bpf_core_field_exists(task->sched_info)) {
        runnable = task->sched_info.run_delay - frame->run_delay_ns;
        event->split = 1;
    }
    if (runnable > elapsed)
        runnable = elapsed;
    if (running > elapsed - runnable)
        running = elapsed - runnable;
    if (running < 0)
        running = 0;
    event->running_ns = running;
    event->runnable_ns = runnable;
    event->blocked_ns = elapsed - runnable - running;
}

static __always_inline int gap_over(struct probe_setting *setting, __u64 now)
{
    __u64 last = setting->last_capture_ns;
    if (last && now - last < setting->capture_gap_ns)
        return 0;
    return __sync_val_compare_and_swap(&setting->last_capture_ns, last, now) == last;
}

/* The settings may have changed since the call was judged by them: the condition that asks for a dump is asked itself,
 * and that it is this probe's is looked at after what it asks for, as settings are written in their order. */
static __always_inline int dump_condition_holds(struct probe_setting *setting, __u64 dump, __u32 probe,
                                                __u64 elapsed_ns)
{
    if ((__u32)dump - 1 >= RULE_BITS || *(volatile __u32 *)&setting->id != probe)
        return 0;
    struct condition_settings *condition = condition_of(dump >> 32, (__u32)dump - 1);
    return condition && elapsed_ns >= condition->slower_than_ns;
}

/* Sends the latency_event and, not more often than is wanted, what the thread looks like
 * now.  The event is reserved first and submitted last: the reader gets all of it at once,
 * in this order. */
static __noinline int report_slow(struct task_struct *task, struct slow_call *call, struct probe_setting *setting)
{
    struct call_frame *frame = call->frame;
    struct thread_slot *thread = call->thread;
    if (!frame || !thread || !setting)
        return 0;
    __u32 probe = frame->probe;
    struct latency_event *event =
        may_send(task, sizeof(*event), SHARE_OTHERS) ? bpf_ringbuf_reserve(&events, sizeof(*event), 0) : 0;
    if (!event) {
        COUNT(probe, unsent);
        count_loss(LOSS_TRIGGER);
        return 0;
    }
    fill_header(&event->h, EVENT_LATENCY, task);
    event->h.t_ns = call->now;
    event->probe = probe;
    event->slot = call->slot;
    event->generation = thread->generation;
    event->start_ns = frame->start_ns;
    event->elapsed_ns = call->now - frame->start_ns;
    __builtin_memcpy(event->args, frame->args, sizeof(event->args));
    event->ret = call->regs->ax;
    event->syscalls_before = frame->syscalls;
    event->syscalls_after = thread->syscalls;
    split_time(task, frame, event);
    event->depth = call->depth;
    event->keyed = call->keyed;
    event->pad = 0;
    event->dumped = 0;
    __u64 dump = *(volatile __u64 *)&setting->dump;
    event->rules_generation = dump >> 32;
    event->dump_bit = (__u32)dump - 1;
    if (dump_condition_holds(setting, dump, probe, event->elapsed_ns))
        event->dumped = dump_here(task, thread, (__u32)dump - 1, dump >> 32);
    event->captured = gap_over(setting, call->now);
    if (event->captured) {
        struct capture capture = {
            .ctx = call->regs,
            .role = ROLE_TRIGGERED,
            .slot = call->slot,
            .event = EVENT_SNAPSHOT,
        };
        capture.share = share_of(task);
        capture_process(task, &capture);
        capture_thread(task, &capture, thread);
    }
    bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
    return 1;
}

static __always_inline void judge(struct task_struct *task, struct slow_call *call)
{
    __u32 probe = call->frame->probe, index = PROBE_INDEX(probe);
    struct probe_setting *setting = bpf_map_lookup_elem(&probe_settings, &index);
    __u64 start = call->frame->start_ns;
    if (!setting || setting->id != probe || call->now - start < setting->threshold_ns)
        return;
    /* Of one that began before the probe was as it is now it is not known what was seen of it. */
    if (start < setting->since_ns || (!call->keyed && switches_stacks(task)))
        COUNT(probe, uncertain);
    else
        report_slow(task, call, setting);
}
