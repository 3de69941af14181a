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
// Two cases differ.  At a tail call the return address is already the kernel's trampoline,
// and both functions return at once.  And several probes may stand at one function (two
// rules, two names): their frames have one stack pointer and one address, and each probe
// once; a probe that is there already tells that all of them are of an earlier call.
// A signal handler on its own stack does not end what it interrupted, but is itself over
// when the thread makes calls below it.  latency_exits.bpf.c sees exceptions and longjmps
// at once; programs that switch stacks are latency_keyed.bpf.c's.
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

/* 1: the function was reached by a jump from one whose return is probed too. */
static __always_inline int tail_called(struct task_struct *task, __u64 sp)
{
    struct xol_area___address *area = (void *)BPF_CORE_READ(task, mm, uprobes_state.xol_area);
    __u64 return_address = 0;
    if (!area || bpf_probe_read_user(&return_address, sizeof(return_address), (void *)sp))
        return 0;
    return return_address == BPF_CORE_READ(area, vaddr);
}

/* An entry, by which frames are judged. */
struct entry {
    __u64 sp;
    __u32 probe, place;
    int tail; /* equals are kept: functions that return at once */
};

static __always_inline int still_there(struct call_frame *frame, struct entry *entry, int same_stack, int here,
                                       int again)
{
    if (!same_stack)
        return here; /* a handler has interrupted it; or is itself over */
    if (frame->sp != entry->sp)
        return frame->sp > entry->sp;
    return entry->tail || (frame->above == entry->place && !again);
}

/* At an entry: depth without the frames that are no longer on the stack. */
static __noinline __u32 drop_stale(struct task_struct *task, struct thread_calls *mine, struct entry *entry)
{
    if (!mine || !entry)
        return 0;
    __u32 depth = mine->depth, kept = 0, signal_frames = 0;
    int here = on_signal_stack(task, entry->sp), again = 0;
    for (__u32 i = 0; i < CALL_DEPTH; i++)
        if (i < depth && mine->frame[i].sp == entry->sp && mine->frame[i].probe == entry->probe)
            again = 1;
    STORE(mine->sequence, mine->sequence + 1);
    for (__u32 i = 0; i < CALL_DEPTH; i++) {
        if (i >= depth)
            break;
        __u32 at = i;
        barrier_var(at); /* the compiler knows its bounds, the verifier of 6.1 is told them */
        struct call_frame *frame = &mine->frame[at & (CALL_DEPTH - 1)];
        int there = on_signal_stack(task, frame->sp);
        if (!still_there(frame, entry, there == here, here, again)) {
            COUNT(frame->probe, missed);
            continue;
        }
        signal_frames |= there;
        at = kept;
        barrier_var(at);
        if (kept < i)
            mine->frame[at & (CALL_DEPTH - 1)] = *frame;
        kept += 1;
    }
    mine->on_signal_stack = signal_frames;
    barrier();
    STORE(mine->depth, kept);
    STORE(mine->sequence, mine->sequence + 1);
    return kept;
}

SEC("uprobe")
int enter_call(struct pt_regs *regs)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct thread_slot *thread;
    __u64 cookie = bpf_get_attach_cookie(regs);
    __u32 slot, probe = cookie;
    struct thread_calls *mine = my_calls(task, 1, &thread, &slot);
    if (!mine) {
        COUNT(probe, unrecorded);
        return 0;
    }
    COUNT(probe, calls);
    if (mine->generation != thread->generation || !mine->listed)
        begin_calls(mine, thread, slot);
    __u32 depth = mine->depth;
    if (depth && (mine->frame[(depth - 1) & (CALL_DEPTH - 1)].sp <= regs->sp || mine->on_signal_stack)) {
        struct entry entry = {.sp = regs->sp, .probe = probe, .place = regs->ip};
        entry.tail = tail_called(task, regs->sp);
        depth = drop_stale(task, mine, &entry);
        if (depth >= CALL_DEPTH) { /* the call's return must not end one of these */
            entry.tail = 0;
            entry.place += 1;
            depth = drop_stale(task, mine, &entry);
            COUNT(probe, overflow);
            return 0;
        }
    }
    if (depth >= CALL_DEPTH) {
        COUNT(probe, overflow);
        return 0;
    }
    __u32 at = depth;
    barrier_var(at);
    struct call_frame *frame = &mine->frame[at & (CALL_DEPTH - 1)];
    STORE(mine->sequence, mine->sequence + 1);
    fill_frame(frame, regs, task, thread, probe);
    frame->above = regs->ip;
    if (cookie & KEEP_RETURN)
        bpf_probe_read_user(&frame->return_address, sizeof(frame->return_address), (void *)regs->sp);
    if (on_signal_stack(task, regs->sp))
        mine->on_signal_stack = 1;
    barrier();
    STORE(mine->depth, depth + 1);
    STORE(mine->sequence, mine->sequence + 1);
    return 0;
}

/* Index of the frame that a return with this stack pointer ends, CALL_DEPTH: none.  What
 * lies above it never returned. */
static __noinline __u32 find_frame(struct task_struct *task, struct thread_calls *mine, __u64 sp, __u32 probe)
{
    if (!mine)
        return CALL_DEPTH;
    __u32 depth = mine->depth;
    int here = on_signal_stack(task, sp);
    for (__u32 i = 0; i < CALL_DEPTH; i++) {
        if (!depth || depth > CALL_DEPTH)
            break;
        struct call_frame *top = &mine->frame[(depth - 1) & (CALL_DEPTH - 1)];
        int there = on_signal_stack(task, top->sp);
        if (there == here ? top->sp >= sp : here)
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
        index = any_of(mine, find_frame(task, mine, sp, probe));
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
