// SPDX-License-Identifier: GPL-2.0-only
// Calls of probed functions, timed in the thread that makes them.
//
// Why uprobe + uretprobe and not a session (6.13) or uprobe_multi (6.6): they are there
// on every kernel from 6.1 on; the attach cookie tells one generic program which probe
// it runs for.  The frames stand in a mapped array, so the daemon finds calls that are
// still in flight without a system call, and a call costs no map update.
//
// A function's frames are kept as a stack and matched by stack pointer, as the kernel
// matches its own return instances (arch_uretprobe_is_alive): at an entry, frames at or
// below the stack pointer belong to functions that were left by longjmp or exception.
// The one exception is a tail call: there the return address is already the kernel's
// trampoline and both functions return at once.  A signal handler on its own stack does
// not end what it interrupted.  Programs that switch stacks themselves (coroutines) have
// calls counted as missed.
//
// A uretprobe replaces the return address on the stack, which a C++ exception that passes
// the function cannot unwind through (the program would std::terminate).  There the leave
// program stands at the function's ret instructions instead (LEAVE_AT_RET in its cookie).
#include "bpf/latency.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* struct xol_area is private to kernel/events/uprobes.c; uprobe_get_trampoline_vaddr(). */
struct xol_area___address {
    unsigned long vaddr;
} __attribute__((preserve_access_index));

static __always_inline int on_signal_stack(struct task_struct *task, __u64 sp)
{
    return sp - task->sas_ss_sp < task->sas_ss_size;
}

/* 1: the function was reached by a jump from one whose return is probed too. */
static __always_inline int tail_called(struct task_struct *task, __u64 sp)
{
    struct xol_area___address *area = (void *)BPF_CORE_READ(task, mm, uprobes_state.xol_area);
    __u64 return_address = 0;
    if (!area || bpf_probe_read_user(&return_address, sizeof(return_address), (void *)sp))
        return 0;
    return return_address == BPF_CORE_READ(area, vaddr);
}

/* At an entry: depth without the frames that are no longer on the stack. */
static __noinline __u32 drop_stale(struct task_struct *task, struct thread_calls *mine, __u64 sp, __u32 probe)
{
    if (!mine)
        return 0;
    __u32 depth = mine->depth;
    int here = on_signal_stack(task, sp), tail = tail_called(task, sp);
    for (__u32 i = 0; i < CALL_DEPTH; i++) {
        if (!depth || depth > CALL_DEPTH)
            break;
        struct call_frame *top = &mine->frame[(depth - 1) & (CALL_DEPTH - 1)];
        if (top->sp > sp || on_signal_stack(task, top->sp) != here)
            break;
        /* two probes may stand at one function under two names; a tail call keeps the pointer */
        if (top->sp == sp && (tail || top->probe != probe))
            break;
        COUNT(top->probe, missed);
        depth -= 1;
    }
    STORE(mine->depth, depth);
    return depth;
}

SEC("uprobe")
int enter_call(struct pt_regs *regs)
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
    __u32 depth = mine->depth;
    if (depth && mine->frame[(depth - 1) & (CALL_DEPTH - 1)].sp <= regs->sp)
        depth = drop_stale(task, mine, regs->sp, probe);
    if (depth >= CALL_DEPTH) {
        COUNT(probe, overflow);
        return 0;
    }
    struct call_frame *frame = &mine->frame[depth & (CALL_DEPTH - 1)];
    STORE(mine->sequence, mine->sequence + 1);
    fill_frame(frame, regs, task, thread, probe);
    barrier();
    STORE(mine->depth, depth + 1);
    STORE(mine->sequence, mine->sequence + 1);
    return 0;
}

/* Index of the frame that a return with this stack pointer ends, CALL_DEPTH: none.  What
 * lies above it never returned. */
static __noinline __u32 find_frame(struct thread_calls *mine, __u64 sp, __u32 probe)
{
    if (!mine)
        return CALL_DEPTH;
    __u32 depth = mine->depth;
    for (__u32 i = 0; i < CALL_DEPTH; i++) {
        if (!depth || depth > CALL_DEPTH)
            break;
        struct call_frame *top = &mine->frame[(depth - 1) & (CALL_DEPTH - 1)];
        if (top->sp >= sp)
            break;
        COUNT(top->probe, missed);
        depth -= 1;
    }
    STORE(mine->depth, depth);
    for (__u32 i = 0; i < CALL_DEPTH; i++) { /* several of the same stack pointer: tail calls, aliases */
        if (!depth || depth > CALL_DEPTH)
            break;
        struct call_frame *frame = &mine->frame[(depth - 1) & (CALL_DEPTH - 1)];
        if (frame->sp != sp)
            break;
        if (frame->probe == probe)
            return depth - 1;
        depth -= 1;
    }
    return CALL_DEPTH;
}

SEC("uprobe") /* attached as a uretprobe, or at ret */
int leave_call(struct pt_regs *regs)
{
    struct slow_call call = {.now = bpf_ktime_get_ns(), .regs = regs};
    struct task_struct *task = bpf_get_current_task_btf();
    __u64 cookie = bpf_get_attach_cookie(regs);
    __u32 probe = cookie;
    struct thread_calls *mine = my_calls(task, 0, &call.thread, &call.slot);
    if (!mine)
        return 0;
    __u32 depth = mine->depth;
    if (!depth || mine->generation != call.thread->generation) {
        COUNT(probe, unmatched);
        return 0;
    }
    __u64 sp = regs->sp;
    if (!(cookie & LEAVE_AT_RET))
        sp -= 8; /* ret has popped the return address */
    __u32 index = depth - 1;
    call.frame = &mine->frame[index & (CALL_DEPTH - 1)];
    if (call.frame->sp != sp || call.frame->probe != probe) {
        index = any_of(mine, find_frame(mine, sp, probe));
        if (index >= CALL_DEPTH) {
            COUNT(probe, unmatched);
            return 0;
        }
        depth = mine->depth;
        call.frame = &mine->frame[index & (CALL_DEPTH - 1)];
    }
    call.depth = index;
    judge(task, &call);
    if (index + 1 < depth) { /* one of equals from the middle: the last takes its place */
        STORE(mine->sequence, mine->sequence + 1);
        *call.frame = mine->frame[(depth - 1) & (CALL_DEPTH - 1)];
        barrier();
        STORE(mine->depth, depth - 1);
        STORE(mine->sequence, mine->sequence + 1);
        return 0;
    }
    STORE(mine->depth, depth - 1);
    return 0;
}
