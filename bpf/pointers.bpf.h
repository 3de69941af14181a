/* SPDX-License-Identifier: GPL-2.0-only
 * What the top of a crashed thread's stack points at: the text an argument leads to, the
 * exception nobody caught.  And of abort(3) the message: glibc leaves what assert, malloc's
 * checks and the stack protector have to say in a page it maps for that just before
 * (struct abort_msg_s, __libc_message() in sysdeps/posix/libc_fatal.c), so the thread's
 * last mapping is where it stands. */
#pragma once

#include "bpf/address_space.bpf.h"
#include "bpf/capture.bpf.h"

#define POINTER_WORDS 512 /* of the stack that are looked at, from the stack pointer up */
#define SEEN_BLOCKS 64
#define SEEN_BLOCK 32 /* bytes: a pointer so near another adds nothing to its window */
#define NR_MMAP 9
#define NR_MMAP2_IA32 192       /* syscall_32.tbl */
#define ABORT_MESSAGE_MAX 65536 /* a larger mapping is no message */

struct pointers_scratch {
    __u64 stack_from, stack_to; /* copied with the thread */
    __u32 narrow, pad;          /* its words are 4 bytes */
    __u64 words[POINTER_WORDS];
    __u64 seen[SEEN_BLOCKS]; /* which blocks have a window, by their number's low bits */
    struct pointers_event event;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct pointers_scratch);
} pointers_scratch __weak SEC(".maps");

static __always_inline struct pointers_scratch *pointers_state(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&pointers_scratch, &zero);
}

static __noinline int add_pointer_window(__u64 pointer, __u8 which)
{
    struct pointers_scratch *scratch = pointers_state();
    if (!scratch)
        return 0;
    __u32 count = scratch->event.count;
    if (count >= POINTER_WINDOWS)
        return 0;
    struct memory_window *window = &scratch->event.window[count];
    copy_window(window, pointer, which);
    if (window->status != WINDOW_READ && window->status != WINDOW_PARTIAL)
        return 1;
    scratch->event.count = count + 1;
    return 1;
}

static long look_at_word(__u32 i, void *unused)
{
    struct pointers_scratch *scratch = pointers_state();
    if (!scratch || scratch->event.count >= POINTER_WINDOWS)
        return 1;
    __u64 pointer = scratch->words[(scratch->narrow ? i / 2 : i) & (POINTER_WORDS - 1)];
    if (scratch->narrow)
        pointer = i & 1 ? pointer >> 32 : (__u32)pointer;
    if (pointer < USER_LOW || pointer >= USER_HIGH)
        return 0;
    if (pointer >= scratch->stack_from && pointer < scratch->stack_to)
        return 0;
    if (in_read_only_file(pointer)) /* a return address, a constant */
        return 0;
    __u64 block = pointer / SEEN_BLOCK;
    __u64 *seen = &scratch->seen[block & (SEEN_BLOCKS - 1)];
    if (*seen == block)
        return 0;
    *seen = block;
    add_pointer_window(pointer, WINDOW_OF_STACK);
    return 0;
}

static __always_inline void abort_message(__u32 slot)
{
    struct thread_slot *thread = bpf_map_lookup_elem(&threads, &slot);
    struct thread_side *side = bpf_map_lookup_elem(&sides, &slot);
    if (!thread || !side || !thread->memory_events)
        return;
    struct memory_record *last = &side->memory[(thread->memory_events - 1) & (MEMORY_RECORDS - 1)];
    if (last->nr != (last->flags & SYSCALL_COMPAT ? NR_MMAP2_IA32 : NR_MMAP) || last->delta <= 0 ||
        last->delta > ABORT_MESSAGE_MAX)
        return;
    __u64 address = last->address + WINDOW_LEN / 2;
    for (int i = 0; i < 4; i++)
        add_pointer_window(address + i * WINDOW_LEN, WINDOW_OF_MAPPING);
}

/* Of the thread that crashed; before capture_thread(), whose event is the last of it. */
static __noinline int capture_pointers(struct task_struct *task, struct capture *capture)
{
    struct pointers_scratch *scratch = pointers_state();
    if (!scratch)
        return 0;
    fill_header(&scratch->event.h, EVENT_POINTERS, task);
    scratch->event.count = 0;
    scratch->narrow = is_narrow(task);
    __builtin_memset(scratch->seen, 0, sizeof(scratch->seen));
    if (capture->number == SIGABRT_NUMBER)
        abort_message(capture->slot);

    __u64 sp = BPF_CORE_READ(user_regs(task), sp);
    scratch->stack_from = (sp - 128) & ~(STACK_PAGE - 1ULL);
    scratch->stack_to = scratch->stack_from + (__u64)stack_pages_max * STACK_PAGE;
    /* as much as is there of the page sp is in and the next */
    __u64 from = sp & ~7ULL;
    __u64 rest = STACK_PAGE - (from & (STACK_PAGE - 1));
    __u32 words = POINTER_WORDS;
    if (bpf_probe_read_user(scratch->words, sizeof(scratch->words), (void *)from)) {
        barrier_var(rest);
        if (rest > sizeof(scratch->words))
            rest = sizeof(scratch->words);
        words = rest / 8;
        if (bpf_probe_read_user(scratch->words, rest, (void *)from))
            words = 0;
    }
    bpf_loop(scratch->narrow ? words * 2 : words, look_at_word, (void *)0, 0);

    __u64 count = scratch->event.count;
    barrier_var(count);
    if (count > POINTER_WINDOWS)
        count = POINTER_WINDOWS;
    __u64 bytes = offsetof(struct pointers_event, window) + count * sizeof(struct memory_window);
    if (count && (!may_add_to_death(capture->share, bytes) ||
                  bpf_ringbuf_output(&events, &scratch->event, bytes, BPF_RB_NO_WAKEUP)))
        count_loss(LOSS_POINTERS);
    return 1;
}
