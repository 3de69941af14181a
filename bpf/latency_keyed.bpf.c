// SPDX-License-Identifier: GPL-2.0-only
// Calls that one thread may begin and another end: goroutines, and functions of programs that
// switch stacks.
//
// A goroutine is known by its g, which Go's own calling convention (ABIInternal, since 1.17)
// keeps in R14.  Assembly may not: so R14 is believed only where the stack bounds that a g
// begins with (runtime.g.stack) hold the stack pointer.  Stacks move when they grow, the
// distance from their top does not: g and distance are a call's key, as the stack pointer is
// elsewhere.  An entry whose key is there already replaces it: either that call was left by a
// panic, or a prologue runs a second time after the stack has grown.  So a time is at worst
// short of what the prologue took, never another call's.
#include "bpf/latency.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, KEYED_CALLS);
    __type(key, struct keyed_call_key);
    __type(value, struct keyed_call);
} keyed_calls SEC(".maps");

/* 0: whose call it is cannot be told.  Not inlined: the compiler would share pointers into
 * the context with its surroundings, which the verifier refuses. */
static __noinline int make_key(struct pt_regs *regs, __u64 cookie, struct thread_slot *thread,
                               struct keyed_call_key *key, __u64 *stack_low)
{
    if (!thread || !key || !stack_low)
        return 0;
    __builtin_memset(key, 0, sizeof(*key));
    key->tgid = thread->tgid;
    key->process_start_boot_ns = thread->process_start_boot_ns;
    key->probe = cookie;
    *stack_low = 0;
    if (cookie & BY_STACK_POINTER) {
        key->place = regs->sp;
        return 1;
    }
    __u64 stack[2]; /* runtime.stack: lo, hi */
    if (bpf_probe_read_user(stack, sizeof(stack), (void *)regs->r14))
        return 0;
    if (regs->sp < stack[0] || regs->sp > stack[1])
        return 0;
    key->goroutine = regs->r14;
    if (!(cookie & OF_PAIR))
        key->place = stack[1] - regs->sp;
    *stack_low = stack[0];
    return 1;
}

/* ABIInternal's first six integer argument registers. */
static __always_inline void go_arguments(struct call_frame *frame, struct pt_regs *regs)
{
    frame->args[0] = regs->ax;
    frame->args[1] = regs->bx;
    frame->args[2] = regs->cx;
    frame->args[3] = regs->di;
    frame->args[4] = regs->si;
    frame->args[5] = regs->r8;
}

/* A prologue that runs a second time has the same arguments; and where the stack has grown, it is another. */
static __always_inline int same_call(struct keyed_call *a, struct keyed_call *b)
{
    if (a->stack_low != b->stack_low)
        return 1;
    for (int i = 0; i < SYSCALL_ARGS; i++)
        if (a->frame.args[i] != b->frame.args[i])
            return 0;
    return 1;
}

SEC("uprobe")
int enter_keyed(struct pt_regs *regs)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct thread_slot *thread;
    __u64 cookie = bpf_get_attach_cookie(regs);
    __u32 slot, probe = cookie;
    if (!my_calls(task, 1, &thread, &slot)) {
        COUNT(probe, unrecorded);
        return 0;
    }
    struct keyed_call_key key;
    struct keyed_call call = {};
    int known = make_key(regs, cookie, thread, &key, &call.stack_low);
    if (!known) {
        COUNT(probe, calls);
        COUNT(probe, uncertain);
        return 0;
    }
    fill_frame(&call.frame, regs, task, thread, probe);
    if (key.goroutine)
        go_arguments(&call.frame, regs);
    struct keyed_call *before = bpf_map_lookup_elem(&keyed_calls, &key);
    int again = before && key.goroutine && key.place && same_call(before, &call);
    if (!again)
        COUNT(probe, calls);
    if (before && !again)
        COUNT(probe, missed);
    if (bpf_map_update_elem(&keyed_calls, &key, &call, BPF_ANY))
        COUNT(probe, overflow);
    return 0;
}

SEC("uprobe")
int leave_keyed(struct pt_regs *regs)
{
    struct slow_call slow = {.now = bpf_ktime_get_ns(), .regs = regs, .keyed = 1};
    struct task_struct *task = bpf_get_current_task_btf();
    __u64 cookie = bpf_get_attach_cookie(regs), stack_low;
    __u32 probe = cookie;
    if (!my_calls(task, 1, &slow.thread, &slow.slot))
        return 0;
    struct keyed_call_key key;
    if (!make_key(regs, cookie, slow.thread, &key, &stack_low)) {
        COUNT(probe, unmatched);
        return 0;
    }
    struct keyed_call *call = bpf_map_lookup_elem(&keyed_calls, &key);
    if (!call) {
        COUNT(probe, unmatched);
        return 0;
    }
    /* Judged where it stands, for a copy would not fit the stack beside a capture.  Nobody else ends or replaces it
     * meanwhile: its goroutine, or its stack, runs in this thread alone. */
    slow.frame = &call->frame;
    judge(task, &slow);
    bpf_map_delete_elem(&keyed_calls, &key);
    return 0;
}
