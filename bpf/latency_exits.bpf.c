// SPDX-License-Identifier: GPL-2.0-only
// Calls that end without a return: the frames that an exception or a longjmp leaves behind.
//
// Why _Unwind_SetIP: the unwinders of all languages (C++, Rust, D, Ada; cancelled threads)
// call it once for every frame in which they are about to go on, a handler's or a clean-up's,
// and the context that it gets has that frame's stack pointer.  All calls below are over then,
// and those above are not: nothing has to be guessed, and a function that catches what it
// called goes on being timed.  Before, while a handler is searched for, nothing is over yet.
// longjmp is told in its jmp_buf where it goes.  Where such a place cannot be made out, no
// frame of the thread is kept: a call is counted as missed rather than told falsely.
#include "bpf/latency.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* A stack pointer that is beyond all frames. */
#define NOWHERE (~0ULL)

/* Where a jump within one stack can lead. */
#define STACK_REACH (256ULL << 20)

static __always_inline __u64 user_word(__u64 address)
{
    __u64 word = 0;
    if (bpf_probe_read_user(&word, sizeof(word), (void *)address))
        return 0;
    return word;
}

/* ip is what the frame below returns to, so it stands right below sp: else these are none. */
static __always_inline int is_place(__u64 sp, __u64 ip)
{
    return ip && sp && user_word(sp - 8) == ip;
}

/* struct _Unwind_Context of libgcc (unwind-dw2.c): 18 register slots, cfa, ra.  At SetIP these
 * are the frame's stack pointer and instruction pointer. */
#define LIBGCC_CFA 144
#define LIBGCC_RA 152
/* UnwindCursor of LLVM's libunwind: vtable, address space, then the registers as
 * Registers_x86_64 has them: rsp is the eighth, rip the seventeenth. */
#define LLVM_RSP 72
#define LLVM_RIP 144

static __always_inline __u64 unwound_to(__u64 context)
{
    __u64 sp = user_word(context + LIBGCC_CFA);
    if (is_place(sp, user_word(context + LIBGCC_RA)))
        return sp;
    sp = user_word(context + LLVM_RSP);
    if (is_place(sp, user_word(context + LLVM_RIP)))
        return sp;
    return NOWHERE;
}

/* jmp_buf of glibc and of musl: rsp is the seventh word; glibc's is mangled (PTR_MANGLE,
 * sysdeps/unix/sysv/linux/x86_64/pointer_guard.h) with the guard in the thread's TCB. */
#define JUMP_RSP 48
#define POINTER_GUARD 0x30

static __always_inline __u64 jumps_to(struct task_struct *task, __u64 buffer)
{
    __u64 kept = user_word(buffer + JUMP_RSP), word;
    __u64 sp = (kept >> 17 | kept << 47) ^ user_word(task->thread.fsbase + POINTER_GUARD);
    if (!(sp & 7) && !bpf_probe_read_user(&word, sizeof(word), (void *)sp))
        return sp;
    if (!(kept & 7) && !bpf_probe_read_user(&word, sizeof(word), (void *)kept))
        return kept;
    return NOWHERE;
}

/* Ends the calls below sp, where the thread goes on.  At sp itself is no frame: it is the
 * stack pointer of a function, whose own return address lies above.  A pair's enter that is a
 * function's entry lies one word below the function that called it. */
static __noinline int end_left(struct task_struct *task, struct thread_calls *mine, __u64 sp)
{
    if (!mine)
        return 0;
    int here = sp != NOWHERE && on_signal_stack(task, sp);
    __u32 depth = mine->depth, used = mine->pairs_used, kept = 0, signal_frames = 0;
    STORE(mine->sequence, mine->sequence + 1);
    for (__u32 i = 0; i < CALL_DEPTH; i++) {
        struct call_frame *frame = &mine->frame[i];
        if (i >= depth)
            break;
        int there = on_signal_stack(task, frame->sp);
        if (there == here ? frame->sp < sp : !here) {
            COUNT(frame->probe, missed);
            COUNT(frame->probe, left);
            continue;
        }
        signal_frames |= there;
        if (kept < i)
            mine->frame[kept & (CALL_DEPTH - 1)] = *frame;
        kept += 1;
    }
    for (__u32 i = 0; i < CALL_DEPTH; i++) {
        struct call_frame *frame = &mine->pair[i];
        if (!(used & (1u << i)))
            continue;
        int there = on_signal_stack(task, frame->sp);
        if (there == here ? frame->sp + 8 < sp : !here) {
            COUNT(frame->probe, missed);
            COUNT(frame->probe, left);
            used &= ~(1u << i);
        }
    }
    mine->on_signal_stack = signal_frames;
    barrier();
    STORE(mine->depth, kept);
    STORE(mine->pairs_used, used);
    STORE(mine->sequence, mine->sequence + 1);
    return 0;
}

/* The thread's calls, where it is in some. */
static __always_inline struct thread_calls *in_calls(struct task_struct *task)
{
    struct thread_slot *thread;
    __u32 slot;
    struct thread_calls *mine = my_calls(task, 0, &thread, &slot);
    if (!mine || mine->generation != thread->generation || !(mine->depth | mine->pairs_used))
        return 0;
    return mine;
}

static __noinline int other_stack(struct task_struct *task)
{
    __u32 tgid = task->tgid;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (process)
        process->stacks_switched = 1;
    return 0;
}

SEC("uprobe")
int unwind_lands(struct pt_regs *regs)
{
    struct task_struct *task = bpf_get_current_task_btf();
    COUNT(EXIT_PROBE, calls);
    struct thread_calls *mine = in_calls(task);
    if (mine)
        end_left(task, mine, unwound_to(regs->di));
    return 0;
}

SEC("uprobe")
int long_jump(struct pt_regs *regs)
{
    struct task_struct *task = bpf_get_current_task_btf();
    COUNT(EXIT_PROBE, calls);
    __u64 sp = jumps_to(task, regs->di);
    /* Nobody jumps further down his own stack. */
    if (sp != NOWHERE && !on_signal_stack(task, regs->sp) && sp - regs->sp > STACK_REACH)
        other_stack(task);
    struct thread_calls *mine = in_calls(task);
    if (mine)
        end_left(task, mine, sp);
    return 0;
}

/* setcontext: a coroutine begins, or goes on. */
SEC("uprobe")
int switch_stack(struct pt_regs *regs)
{
    struct task_struct *task = bpf_get_current_task_btf();
    COUNT(EXIT_PROBE, calls);
    other_stack(task);
    return 0;
}

/* _dl_debug_state: the dynamic loader has mapped libraries and runs nothing of them yet.  The daemon looks whether
 * they bear the return probes that stand in the process: code that switches stacks does not. */
SEC("uprobe")
int code_loaded(struct pt_regs *regs)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct event_header *event = may_ask(task, sizeof(*event)) ? bpf_ringbuf_reserve(&events, sizeof(*event), 0) : 0;
    if (!event) {
        count_loss(LOSS_WATCH_EVENT);
        return 0;
    }
    fill_header(event, EVENT_CODE, task);
    bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
    return 0;
}
