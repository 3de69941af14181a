/* SPDX-License-Identifier: GPL-2.0-only
 * The path that a call names: read into thread_side.path, where it stays until the thread's next such call, and kept
 * behind the packed call.
 *
 * It is read at entry, where it cannot have been changed by another thread since; where its page is not resident it is
 * read again at return, when the kernel has faulted it in.  What has no room there goes into the thread's segments at
 * once, in pieces: long paths are rare, and room for one in every slot would be most of a slot. */
#pragma once

#include "bpf/segments.bpf.h"

#define PATH_REST_LEN 984 /* of a piece with a NUL: two of them fill a segment */
#define PATH_RESTS_MAX 4
#define PATH_LAST_LEN (PATH_MAX_LEN - (PATH_HEAD_LEN - 1) - (PATH_RESTS_MAX - 1) * (PATH_REST_LEN - 1))

/* Index of the argument that is the path. */
static __always_inline __u32 which_path(__u32 class)
{
    return ((class >> CLASS_PATH_SHIFT) & CLASS_PATH_MASK) - 1;
}

/* By constant index only: a register may not index a record's arguments unbounded. */
static __always_inline __u64 argument(struct syscall_record *record, __u32 which)
{
    if (which == 1)
        return record->args[1];
    if (which == 2)
        return record->args[2];
    if (which == 3)
        return record->args[3];
    return record->args[0];
}

/* One more piece of a long path, from there on, in so many bytes; returns its length with the NUL.  0: there is no
 * memory for it. */
static __noinline long keep_rest(struct thread_slot *thread, __u64 from, __u32 which)
{
    struct call_segment *segment = segment_at(thread->newest);
    __u64 filled = segment ? segment->filled : 0, used = filled & 0xffffffff;
    __u64 start_ns = thread->call[(thread->syscalls - 1) & 1].start_ns;
    if (!segment || used > SEGMENT_WORDS - (1 + PATH_REST_LEN / 4) || segment->generation != thread->generation) {
        if (segment && thread->refused && !has_older(thread)) /* its only one would be begun anew, without its calls */
            return 0;
        segment = next_segment(thread, start_ns - 1, thread->syscalls - 1); /* the call itself is not in it yet */
        if (!segment)
            return 0;
        filled = used = 0;
    }
    __u32 size = which < PATH_RESTS_MAX ? PATH_REST_LEN : PATH_LAST_LEN;
    OPAQUE(size);
    if (size > PATH_REST_LEN)
        return 0;
    long length = bpf_probe_read_user_str(&segment->words[used + 1], size, (void *)from);
    if (length <= 1)
        return length;
    segment->words[used] =
        PACKED_EXTRA | PACKED_PATH_REST << PACKED_EXTRA_KIND_SHIFT | which << PACKED_PATH_REST_SHIFT | (length - 1);
    *(volatile __u64 *)&segment->filled = filled + 1 + (length + 2) / 4;
    return length;
}

/* What goes on beyond PATH_HEAD_LEN, from there on; 0 where it cannot be read. */
static __always_inline int read_rests(struct thread_slot *thread, __u64 from)
{
    long size = PATH_HEAD_LEN, length = size;
    for (__u32 i = 1; length == size; i++) { /* it may be just so long */
        char next = 0;
        from += size - 1;
        if (bpf_probe_read_user(&next, 1, (void *)from))
            return 0;
        if (!next)
            break;
        size = i < PATH_RESTS_MAX ? PATH_REST_LEN : PATH_LAST_LEN;
        length = i <= PATH_RESTS_MAX ? keep_rest(thread, from, i) : 0;
        if (length < 0)
            return 0;
        if (length == 0)
            thread->path_is_cut = 1;
        if (length <= 1)
            break;
        thread->path_rests = i;
        thread->path_length += length - 1;
    }
    return 1;
}

/* Of the call, which is not kept yet; 0 where the path cannot be read. */
static __noinline int read_path(struct thread_slot *thread, __u32 slot, struct syscall_record *record, __u32 class)
{
    struct thread_side *side = bpf_map_lookup_elem(&sides, &slot);
    __u64 path = argument(record, which_path(class));
    __u32 flags = (class >> CLASS_FLAGS_SHIFT) & CLASS_FLAGS_MASK;
    if (!side)
        return 0;
    side->open_flags = flags ? argument(record, flags - 1) : 0;
    if (class & CLASS_OPEN_HOW) /* struct open_how begins with __u64 flags (linux/openat2.h) */
        bpf_probe_read_user(&side->open_flags, sizeof(side->open_flags), (void *)record->args[2]);
    long length = bpf_probe_read_user_str(side->path, PATH_HEAD_LEN, (void *)path);
    if (length <= 0)
        return 0;
    thread->path_length = length - 1;
    thread->path_rests = 0;
    thread->path_is_cut = 0;
    if (length == PATH_HEAD_LEN && !read_rests(thread, path))
        return 0;
    if (thread->path_rests && /* the end, for the fact that it is: of these bytes no call in flight names an address */
        bpf_probe_read_user(side->address, TALLY_NAME, (void *)(path + thread->path_length - TALLY_NAME)))
        return 0;
    *(volatile __u32 *)&thread->path_of = thread->syscalls; /* at the end: the daemon may look at any time */
    return 1;
}

/* As the call returns, before it is kept: the path is there now, or cannot be read. */
static __always_inline void finish_path(struct thread_slot *thread, __u32 slot, struct syscall_record *record,
                                        __u32 class)
{
    int is_gone = (class & CLASS_EXEC) && record->ret == 0; /* the memory it stood in */
    if (!thread->in_call)
        thread->opens += 1;
    if (!has_path(thread) && !is_gone)
        read_path(thread, slot, record, class);
}

/* Copies the beginning, which is not longer than most; returns where the words end that it takes, 0: there is no room.
 */
static __always_inline __u64 copied(struct call_segment *segment, __u64 at, const struct thread_side *side,
                                    __u32 length, __u32 most)
{
    if (at > SEGMENT_WORDS - most / 4 || length > most)
        return 0;
    bpf_probe_read_kernel(&segment->words[at], length, side->path);
    return at + (length + 3) / 4;
}

/* Puts it behind the call, for which keep_call() has made room.  0: it could not be read. */
static __noinline int keep_path(struct thread_slot *thread, __u32 slot, struct syscall_record *record, __u32 class)
{
    struct call_segment *segment = segment_at(thread->newest);
    struct thread_side *side = bpf_map_lookup_elem(&sides, &slot);
    int is_there = has_path(thread), is_cut = is_there && thread->path_is_cut;
    if (!is_there) {
        thread->paths_faulted += 1;
        count_loss(LOSS_PATH_FAULT);
    } else if (is_cut) {
        thread->paths_cut += 1;
        count_loss(LOSS_PATH_CUT);
    }
    if (!segment || !side)
        return is_there;
    __u64 filled = segment->filled, used = filled & 0xffffffff;
    if (segment->generation != thread->generation || segment->last_ns != record->start_ns ||
        used > SEGMENT_WORDS - PACKED_PATH_WORDS(0))
        return is_there; /* the call itself found no place */
    __u32 length = is_there ? head_of_path(thread) : 0, rests = is_there ? thread->path_rests : 0;
    __u32 status = !is_there ? PATH_FAULT : is_cut ? PATH_CUT : PATH_KEPT;
    __u64 at = used + 1, how = class & CLASS_OPEN_HOW ? side->open_flags : 0;
    segment->words[used] = PACKED_EXTRA | PACKED_PATH << PACKED_EXTRA_KIND_SHIFT | status << PACKED_PATH_STATUS_SHIFT |
                           (how ? PACKED_PATH_HOW : 0) | rests << PACKED_PATH_RESTS_SHIFT | length;
    if (how) {
        segment->words[at] = how;
        segment->words[at + 1] = how >> 32;
        at += 2;
    }
    OPAQUE(length); /* or the verifier knows one copy of it, and the helper gets another */
    __u64 to = 0;
    if (length <= 128)
        to = copied(segment, at, side, length, 128);
    else if (length <= 256)
        to = copied(segment, at, side, length, 256);
    else if (length <= 512)
        to = copied(segment, at, side, length, 512);
    else
        to = copied(segment, at, side, length, PATH_HEAD_LEN);
    if (to)
        *(volatile __u64 *)&segment->filled = (filled >> 32) << 32 | to;
    return is_there;
}
