/* SPDX-License-Identifier: GPL-2.0-only
 * Whose a thing is that there is little of, and how much of it one user may have.
 *
 * The rule is the same for room in the ring buffer, slots, segments and process entries: who asks gets it as long as
 * what is hers is at most so many times what is left (the dynamic thresholds of switches with a shared buffer:
 * Choudhury and Hahne, 1998).  So one user alone gets nearly all, and there is always something left for the next,
 * without anybody having to count users.  What she has had refused is counted with her.
 *
 * A user is the real uid, which a setuid program does not change.  Whoever made a user namespace of her own stays
 * herself in it, for she may have thousands of uids there.  Root runs everybody's services: its processes are told
 * apart by their cgroup. */
#pragma once

#include "bpf/task.bpf.h"

/* Each a struct user_share.  As numbers, for the daemon's skeleton knows no types of ours. */
__u64 share_words[SHARES][SHARE_WORDS] __weak = {};

static __always_inline struct user_share *share_at(__u32 index)
{
    return (struct user_share *)share_words[index & (SHARES - 1)];
}

#define NAMESPACE_LEVELS 33          /* of user namespaces: kernel/user_namespace.c, create_user_ns */
#define SHARE_WAYS 8                 /* places in which a user may stand */
#define SHARE_IDLE_NS 60000000000ULL /* who has nothing and has asked for nothing as long makes room for another */
#define A_SECOND 1000000000ULL

/* So many times what is left one user may have. */
#define RING_FACTOR 3    /* one alone: three quarters of the ring buffer */
#define FILLING_FACTOR 1 /* from here on an incident leaves out what it can do without: a half */
#define SIBLING_FACTOR 2 /* … and siblings of the crashed thread: two thirds */
#define HELD_FACTOR 7    /* slots, segments, requests and process entries: seven eighths */

/* What one user may make the daemon do within a second.  Each costs it microseconds, a question some 50 of them. */
#define EVENTS_A_SECOND 10000
#define SIGNALS_A_SECOND 2000
#define QUESTIONS_A_SECOND 100
#define CAPTURES_A_SECOND 20
#define RENAMES_A_SECOND 10

static long outwards(__u32 step, struct user_namespace **space)
{
    if (BPF_CORE_READ(*space, level) <= 1)
        return 1;
    *space = BPF_CORE_READ(*space, parent);
    return 0;
}

static __always_inline __u64 owner_of(struct task_struct *task)
{
    __u32 uid = BPF_CORE_READ(task, cred, uid.val);
    struct user_namespace *space = BPF_CORE_READ(task, cred, user_ns);
    if (BPF_CORE_READ(space, level)) {
        bpf_loop(NAMESPACE_LEVELS, outwards, &space, 0);
        __u32 maker = BPF_CORE_READ(space, owner.val);
        if (maker)
            uid = maker;
    }
    return uid ? uid : SHARE_OF_CGROUP | cgroup_id_of(task);
}

/* Index of the owner's share.  Where all her places are others' she shares the first with them.  Not static, like the
 * next ones: then the verifier walks it once, and not at each of its calls. */
__weak __u32 find_share(__u64 owner)
{
    __u64 now = bpf_ktime_get_ns();
    __u32 first = (owner * 0x9e3779b97f4a7c15ULL) >> 32;
    for (__u32 i = 0; i < SHARE_WAYS; i++)
        if (share_at(first + i)->owner == owner)
            return (first + i) & (SHARES - 1);
    for (__u32 i = 0; i < SHARE_WAYS; i++) {
        __u32 index = (first + i) & (SHARES - 1);
        struct user_share *share = share_at(index);
        __u64 before = share->owner;
        /* Segments of the ended do not count, or they would keep places for long: whoever comes next owes them until
         * they are given back. */
        if (before && (share->slots || share->processes || share->kept || share->requests ||
                       share->second_ns + SHARE_IDLE_NS > now))
            continue;
        if (__sync_val_compare_and_swap(&share->owner, before, owner) != before)
            continue;
        share->second_ns = now;
        share->refused_events = share->refused_deaths = share->refused_slots = share->refused_processes = 0;
        return index;
    }
    return first & (SHARES - 1);
}

static __noinline __u32 share_of(struct task_struct *task)
{
    return find_share(owner_of(task));
}

/* How many bytes in the ring buffer are hers, at most: what she put in since the reader passed the place where the
 * buffer ended when she last was looked at so.  Nobody has to tell what has been taken out. */
static __always_inline __u64 bytes_held(struct ring_share *ring)
{
    __u64 until = ring->until, read = bpf_ringbuf_query(&events, BPF_RB_CONS_POS);
    if (read >= until) {
        __u64 end = bpf_ringbuf_query(&events, BPF_RB_PROD_POS);
        if (__sync_val_compare_and_swap(&ring->until, until, end) == until) {
            __u64 newer = __sync_lock_test_and_set(&ring->newer, 0);
            ring->older = read == end ? 0 : newer;
        }
    }
    return ring->older + ring->newer;
}

/* What is left for that kind: what belongs to a death may fill the ring buffer, all else half of it. */
static __always_inline __u64 room_left(__u32 kind)
{
    __u64 used = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA), size = bpf_ringbuf_query(&events, BPF_RB_RING_SIZE);
    if (kind != SHARE_DEATHS)
        size /= 2;
    return used < size ? size - used : 0;
}

/* For what is nobody's: a request's end in an interrupt, what the daemon itself has asked for. */
static __always_inline int leaves_room_for_deaths(void)
{
    return room_left(SHARE_DEATHS) > bpf_ringbuf_query(&events, BPF_RB_RING_SIZE) / 4;
}

/* Begins her next second where one is over. */
static __always_inline void begin_second(struct user_share *share)
{
    __u64 now = bpf_ktime_get_ns();
    if (now - share->second_ns < A_SECOND)
        return;
    share->second_ns = now;
    share->events = share->questions = share->captures = share->renames = share->signals = 0;
}

/* Whether that user may put so many bytes into the ring buffer; then they are hers. */
__weak int admit(__u32 index, __u32 bytes, __u32 kind)
{
    struct user_share *share = share_at(index);
    struct ring_share *ring = &share->ring[kind == SHARE_DEATHS];
    begin_second(share);
    if ((kind == SHARE_DEATHS || share->events < EVENTS_A_SECOND) &&
        bytes_held(ring) + bytes <= RING_FACTOR * room_left(kind)) {
        if (kind != SHARE_DEATHS)
            __sync_fetch_and_add(&share->events, 1);
        __sync_fetch_and_add(&ring->newer, bytes);
        return 1;
    }
    if (kind == SHARE_DEATHS)
        __sync_fetch_and_add(&share->refused_deaths, 1);
    else
        __sync_fetch_and_add(&share->refused_events, 1);
    return 0;
}

/* Whether that user has had less than so many of what a second has; then one more. */
__weak int admit_question(__u32 index)
{
    struct user_share *share = share_at(index);
    begin_second(share);
    if (share->questions < QUESTIONS_A_SECOND && __sync_fetch_and_add(&share->questions, 1) < QUESTIONS_A_SECOND)
        return 1;
    __sync_fetch_and_add(&share->refused_events, 1);
    return 0;
}

/* The same of a signal that does not kill, which any process can send itself as fast as nothing else. */
__weak int admit_signal(__u32 index)
{
    struct user_share *share = share_at(index);
    begin_second(share);
    if (share->signals < SIGNALS_A_SECOND && __sync_fetch_and_add(&share->signals, 1) < SIGNALS_A_SECOND)
        return 1;
    __sync_fetch_and_add(&share->refused_events, 1);
    return 0;
}

/* The same of a capture: beyond, what it would be for comes without. */
__weak int admit_capture(__u32 index, __u32 most)
{
    struct user_share *share = share_at(index);
    begin_second(share);
    return share->captures < most && __sync_fetch_and_add(&share->captures, 1) < most;
}

/* Whether what that user has in the ring buffer for deaths is more than so many times what is left. */
__weak int holds_much(__u32 index, __u32 factor)
{
    return bytes_held(&share_at(index)->ring[SHARE_DEATHS]) > factor * room_left(SHARE_DEATHS);
}

static __always_inline int may_send(struct task_struct *task, __u32 bytes, __u32 kind)
{
    return admit(share_of(task), bytes, kind);
}

/* The same of an event for which the daemon has to read /proc. */
static __always_inline int may_ask(struct task_struct *task, __u32 bytes)
{
    __u32 index = share_of(task);
    return admit_question(index) && admit(index, bytes, SHARE_OTHERS);
}

/* What comes between a death and the crashed thread's registers leaves room for these. */
static __always_inline int may_add_to_death(__u32 index, __u32 bytes)
{
    return !holds_much(index, SIBLING_FACTOR) && admit(index, bytes, SHARE_DEATHS);
}
