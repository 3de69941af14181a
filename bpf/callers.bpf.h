/* SPDX-License-Identifier: GPL-2.0-only
 * Who makes a call, known without asking.
 *
 * What a program on every system call pays most for are the helpers it calls: each is a return more, and on CPUs whose
 * returns the kernel makes safe (SRSO, retbleed) that is 20 ns.  So a thread is known by where its registers lie: at
 * the end of its kernel stack (task_pt_regs), which no other living thread has.  caller_of_stack holds of as many
 * stacks as it has places what slot_of holds of the thread there.  A word is believed only if it is of this very stack;
 * it is forgotten where slot_of changes, and before a new thread first runs there.  Where two stacks share a place the
 * kernel is asked again. */
#pragma once

#include "bpf/maps.bpf.h"

/* The high half of a word is what its place does not tell of the stack; the low half is the value of slot_of. */
__u64 caller_of_stack[STACK_PLACES] __weak = {};

/* From a task's stack to where its registers lie, as registers_at() has it: the same for all; 0: not yet seen. */
__u64 registers_from_stack __weak = 0;

/* The verifier lets no address be shifted; the difference of two is a number to it.  What is subtracted is the same for
 * all, so the difference tells stacks apart as well. */
static __always_inline __u64 registers_at(struct pt_regs *regs)
{
    __u64 at = (__u64)regs;
    asm volatile("%0 -= %1" : "+r"(at) : "r"(caller_of_stack));
    return at;
}

/* Stacks are STACK_ALIGNED at least (THREAD_SIZE; 2 or, with KASAN, 4 pages' order): above that, no two have the same
 * number.  Of its 42 bits (addresses differ in 56) the place takes the low 14, folded with those above; these, as they
 * are, are the tag: from both the number can be had back, so nothing is guessed. */
static __always_inline __u64 *stack_place(__u64 at, __u32 *tag)
{
    __u64 number = at / STACK_ALIGNED;
    *tag = number / STACK_PLACES;
    return &caller_of_stack[(number ^ *tag ^ (*tag / STACK_PLACES)) & (STACK_PLACES - 1)];
}

/* What slot_of holds for who calls; 0 where that is nothing, or not known here. */
static __always_inline __u32 known_caller(__u64 at)
{
    __u32 tag;
    __u64 word = *stack_place(at, &tag);
    return word >> 32 == tag ? (__u32)word : 0;
}

/* Read by address: loaded from the task it is a pointer to the verifier (since 6.17), and no number. */
static __always_inline __u64 stack_of(struct task_struct *task)
{
    return (__u64)BPF_CORE_READ(task, stack);
}

static __always_inline void remember_caller(struct task_struct *task, __u64 at, __u32 value)
{
    __u32 tag;
    __u64 *word = stack_place(at, &tag);
    if (!registers_from_stack)
        registers_from_stack = at - stack_of(task);
    *word = (__u64)tag << 32 | value;
}

/* Of a task that is the current one, or has not run yet. */
static __always_inline void forget_caller(struct task_struct *task)
{
    __u32 tag;
    if (registers_from_stack)
        *stack_place(stack_of(task) + registers_from_stack, &tag) = 0;
}
