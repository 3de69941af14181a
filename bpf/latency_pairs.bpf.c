// SPDX-License-Identifier: GPL-2.0-only
// The time between two different probes, in one thread.
//
// Pairs of different probes have no common stack pointer: a leave ends the latest enter
// of the same probe.  An enter no deeper in the stack than an earlier one of its probe
// replaces it (that leave was missed): pairs nest by recursion only.  One whose enter lies in
// a function that an exception or longjmp has left is over as well (latency_exits.bpf.c).
#include "bpf/latency.bpf.h"

char LICENSE[] SEC("license") = "GPL";

SEC("uprobe")
int enter_pair(struct pt_regs *regs)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct thread_slot *thread;
    __u32 slot, probe = bpf_get_attach_cookie(regs);
    struct thread_calls *mine = my_calls(task, 1, &thread, &slot);
    if (!mine) {
        COUNT(probe, unrecorded);
        return 0;
    }
    COUNT(probe, calls);
    if (mine->generation != thread->generation || !mine->listed)
        begin_calls(mine, thread, slot);
    __u32 used = mine->pairs_used, free = CALL_DEPTH, latest = CALL_DEPTH;
    __u64 latest_ns = 0;
    for (__u32 i = 0; i < CALL_DEPTH; i++) {
        struct call_frame *frame = &mine->pair[i];
        if (!(used & (1u << i))) {
            free = i;
            continue;
        }
        if (frame->probe != probe)
            continue;
        if (frame->sp <= regs->sp) {
            COUNT(probe, missed);
            used &= ~(1u << i);
            free = i;
        } else if (frame->start_ns >= latest_ns) {
            latest = i;
            latest_ns = frame->start_ns;
        }
    }
    if (free >= CALL_DEPTH) {
        COUNT(probe, overflow);
        if (latest < CALL_DEPTH) /* its leave must not end the frame below */
            mine->pair[latest & (CALL_DEPTH - 1)].above += 1;
        return 0;
    }
    STORE(mine->sequence, mine->sequence + 1);
    fill_frame(&mine->pair[free & (CALL_DEPTH - 1)], regs, task, thread, probe);
    barrier();
    STORE(mine->pairs_used, used | 1u << (free & (CALL_DEPTH - 1)));
    STORE(mine->sequence, mine->sequence + 1);
    return 0;
}

SEC("uprobe")
int leave_pair(struct pt_regs *regs)
{
    struct slow_call call = {.now = bpf_ktime_get_ns(), .regs = regs};
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 probe = bpf_get_attach_cookie(regs);
    struct thread_calls *mine = my_calls(task, 0, &call.thread, &call.slot);
    if (!mine)
        return 0;
    __u32 latest = CALL_DEPTH, used = mine->generation == call.thread->generation ? mine->pairs_used : 0;
    __u64 latest_ns = 0;
    for (__u32 i = 0; i < CALL_DEPTH; i++) {
        struct call_frame *frame = &mine->pair[i];
        if ((used & (1u << i)) && frame->probe == probe && frame->start_ns >= latest_ns) {
            latest = i;
            latest_ns = frame->start_ns;
        }
    }
    latest = any_of(mine, latest);
    if (latest >= CALL_DEPTH) {
        COUNT(probe, unmatched);
        return 0;
    }
    call.frame = &mine->pair[latest & (CALL_DEPTH - 1)];
    if (call.frame->above) {
        call.frame->above -= 1;
        return 0;
    }
    judge(task, &call);
    STORE(mine->pairs_used, used & ~(1u << (latest & (CALL_DEPTH - 1))));
    return 0;
}
