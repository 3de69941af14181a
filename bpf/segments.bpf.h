/* SPDX-License-Identifier: GPL-2.0-only
 * Calls that are over, packed into segments of a pool that all threads share.
 *
 * A thread that fills its segment gets another one as long as the pool has enough left and its user has not more than a
 * share of it; else it writes over its own oldest.  So memory is where calls are made, and who makes few keeps them
 * long.  Where less than a quarter is left, the daemon every second gives back what the ended have left, and takes from
 * who has more than a fair part where others want (daemon/record/pool.h).  The last segments are for threads that have
 * fewer than OWN_SEGMENTS. */
#pragma once

#include "bpf/branchless.bpf.h"
#include "bpf/packed.h"
#include "bpf/requests.h"
#include "bpf/shares.bpf.h"

static __always_inline struct call_segment *segment_at(__u32 index_plus_one)
{
    __u32 index = index_plus_one - 1;
    return bpf_map_lookup_elem(&segments, &index);
}

#define DROP_TRIES 16

static __always_inline int has_older(struct thread_slot *thread)
{
    return (__u32) * (volatile __u64 *)&thread->oldest != thread->newest;
}

/* Takes the oldest out of the chain, unless it is the only one; 0: it is, or the daemon takes it at this moment. */
static __always_inline __u32 drop_oldest(struct thread_slot *thread)
{
    __u64 oldest = *(volatile __u64 *)&thread->oldest;
    __u32 index = oldest;
    if (!index || index == thread->newest)
        return 0;
    struct call_segment *segment = segment_at(index);
    if (!segment)
        return 0;
    __u64 next = *(volatile __u32 *)&segment->next;
    __u64 serial = (oldest >> 32) + 1;
    return __sync_val_compare_and_swap(&thread->oldest, oldest, serial << 32 | next) == oldest ? index : 0;
}

/* Another segment out of the pool; 0: there is none for this thread. */
static __always_inline __u32 take_segment(struct thread_slot *thread)
{
    struct user_share *share = share_at(thread->share);
    __u32 index, granted = thread->granted;
    __u32 has = granted ? 0 : thread->segments; /* the very last are for who has none at all */
    __s32 kept_back = !has ? 0 : has < OWN_SEGMENTS ? segments_kept_back / 2 : segments_kept_back;
    __s32 left = *(volatile __s32 *)&segments_free - kept_back;
    if (left <= 0 || (has >= OWN_SEGMENTS && share->segments >= (__u64)HELD_FACTOR * left)) {
        thread->refused = 1;
        return 0;
    }
    if (bpf_map_pop_elem(&free_segments, &index))
        return 0;
    __sync_fetch_and_add(&segments_free, -1);
    if (granted)
        thread->granted = granted - 1;
    struct call_segment *segment = segment_at(index + 1);
    if (!segment)
        return 0;
    segment->share = thread->share;
    __sync_fetch_and_add(&share->segments, 1);
    __sync_fetch_and_add(&thread->segments, 1);
    return index + 1;
}

static __always_inline void charge_segment(struct call_segment *segment, __u32 share)
{
    if (segment->share == share)
        return;
    __sync_fetch_and_sub(&share_at(segment->share)->segments, 1);
    __sync_fetch_and_add(&share_at(share)->segments, 1);
    segment->share = share;
}

/* Begins another segment of the thread, for what began then; 0: there is none.  first: index of the call that will be
 * the first in it.  Who has but one, and gets no other, begins that anew; and first of all goes what the slot's thread
 * before has left. */
static __noinline struct call_segment *next_segment(struct thread_slot *thread, __u64 start_ns, __u64 first)
{
    __u32 newest = thread->newest, index = 0;
    struct call_segment *before = segment_at(newest), *eldest = segment_at(thread->oldest), *segment;
    if (!eldest || eldest->generation == thread->generation)
        index = take_segment(thread);
    /* again where the daemon took it at that moment: it may take many of one thread in a row */
    for (int i = 0; i < DROP_TRIES && !index && has_older(thread); i++)
        index = drop_oldest(thread);
    if (!index && has_older(thread)) /* begun anew, the newest would leave the others in no chain */
        return 0;
    segment = index ? segment_at(index) : before;
    if (!segment)
        return 0;
    if (!index)
        index = newest;
    charge_segment(segment, thread->share);
    __u32 serial = before ? before->serial + 1 : 1;
    int anew = index == newest;
    if (anew || !newest) /* before anything of it changes: who reads it looks there afterwards */
        *(volatile __u64 *)&thread->oldest = (__u64)serial << 32 | index;
    *(volatile __u64 *)&segment->filled = 0;
    segment->generation = thread->generation;
    segment->first = first;
    segment->start_ns = segment->last_ns = start_ns;
    segment->serial = serial;
    segment->next = 0;
    segment->prev = anew ? 0 : newest;
    if (!anew) {
        if (before)
            *(volatile __u32 *)&before->next = index;
        *(volatile __u32 *)&thread->newest = index;
    }
    return segment;
}

/* Reads it now, and not once for all: what is held from here to there takes stack, of which the frames of a call chain
 * share 512 bytes (MAX_BPF_STACK). */
#define READ_AGAIN(place) (*(volatile const typeof(place) *)&(place))

/* One word of the packed call, which counts if it is wanted: else the next one is written over it. */
#define PUT(word, wanted)                                                                                              \
    do {                                                                                                               \
        words[at] = (word);                                                                                            \
        at += (wanted);                                                                                                \
    } while (0)

#define PUT_ARGUMENT(i)                                                                                                \
    do {                                                                                                               \
        __u64 argument = READ_AGAIN(record->args[i]), has = is_less(i, arguments);                                     \
        __u64 low = is_set(argument) & has, high = is_set(argument >> 32) & has;                                       \
        PUT(argument, low);                                                                                            \
        PUT(argument >> 32, high);                                                                                     \
        head |= low << (PACKED_LOW + (i)) | high << (PACKED_HIGH + (i));                                               \
    } while (0)

/* Bits that differ in an argument that the call has. */
#define DIFFERENCE(i) ((READ_AGAIN(record->args[i]) ^ before->args[i]) & (0 - is_less(i, arguments)))

/* Writes the call behind the words that are used, and returns how many are then.  before: the call before it. */
static __always_inline __u64 pack_call(struct call_segment *segment, __u64 at, const struct syscall_record *record,
                                       const struct syscall_record *before, __u64 has_before, __u64 arguments)
{
    __u32 *words = segment->words;
    __u64 head_at = at, started = record->start_ns - segment->last_ns, took = record->duration_ns;
    __u64 timed = took != NO_DURATION, long_ago = is_set(started >> 32), lasted = is_set(took >> 32) & timed;
    __u64 head = timed ? 0 : PACKED_UNTIMED;
    segment->last_ns = record->start_ns;
    at += 1;
    PUT(started, 1);
    PUT(started >> 32, long_ago);
    PUT(took, timed);
    PUT(took >> 32, lasted);
    head |= long_ago * PACKED_LONG_AGO | lasted * PACKED_LONG;
    if (has_before) {
        __u64 differs = ((__u64)(record->nr ^ before->nr) << 32 | (record->flags ^ before->flags)) |
                        (record->ret ^ before->ret) | DIFFERENCE(0) | DIFFERENCE(1) | DIFFERENCE(2) | DIFFERENCE(3) |
                        DIFFERENCE(4) | DIFFERENCE(5);
        if (!differs) {
            words[head_at] = head | PACKED_AGAIN;
            return at;
        }
    }
    __u32 number = record->nr, sign = (__s32)record->ret >> 31;
    __u64 beyond = is_set(number & ~PACKED_NUMBER_MASK), result = is_set(record->ret);
    __u64 wide = is_set((record->ret >> 32) ^ sign);
    PUT(number, beyond);
    PUT(record->ret, result);
    PUT(record->ret >> 32, wide);
    head |= (number & PACKED_NUMBER_MASK) | beyond * PACKED_NUMBER | result * PACKED_RESULT |
            wide * PACKED_WIDE_RESULT | (record->flags & (SYSCALL_COMPAT | SYSCALL_ARGS_GONE)) * PACKED_COMPAT;
    PUT_ARGUMENT(0);
    PUT_ARGUMENT(1);
    PUT_ARGUMENT(2);
    PUT_ARGUMENT(3);
    PUT_ARGUMENT(4);
    PUT_ARGUMENT(5);
    words[head_at] = head;
    return at;
}

static __always_inline int has_path(const struct thread_slot *thread)
{
    return thread->path_of == (__u32)thread->syscalls;
}

/* Bytes of it that stand in thread_side.path. */
static __always_inline __u32 head_of_path(const struct thread_slot *thread)
{
    return thread->path_rests ? PATH_HEAD_LEN - 1 : thread->path_length;
}

/* Words that the call may take with what stands behind it.  class: as in syscall_class. */
static __always_inline __u64 room_for(const struct thread_slot *thread, __u32 class)
{
    if (class & CLASS_PATH_MASK) { /* in steps, for the verifier */
        __u32 length = has_path(thread) ? head_of_path(thread) : 0;
        return PACKED_WORDS_MAX + PACKED_PATH_WORDS(length <= 128   ? 128
                                                    : length <= 256 ? 256
                                                    : length <= 512 ? 512
                                                                    : PATH_HEAD_LEN);
    }
    return class & CLASS_PAYLOAD ? PACKED_WORDS_MAX + 2 * PACKED_EXTRA_WORDS_MAX
           : class & CLASS_EXTRA ? PACKED_WORDS_MAX + PACKED_EXTRA_WORDS_MAX
                                 : PACKED_WORDS_MAX;
}

/* Keeps the thread's last call, which is over.  class: as in syscall_class. */
static __always_inline void keep_call(struct thread_slot *thread, struct syscall_record *record, __u32 class)
{
    struct call_segment *segment = segment_at(thread->newest);
    __u64 filled = segment ? segment->filled : 0, used = filled & 0xffffffff;
    if (!segment || used > SEGMENT_WORDS - room_for(thread, class) || segment->generation != thread->generation) {
        segment = next_segment(thread, record->start_ns, thread->syscalls - 1);
        if (!segment) {
            thread->unkept += 1;
            count_loss(LOSS_SEGMENT);
            return;
        }
        filled = used = 0;
    }
    __u64 arguments = (class >> CLASS_ARGUMENTS_SHIFT) & CLASS_ARGUMENTS_MASK;
    if ((__u32)record->nr > PACKED_NUMBER_MASK)
        arguments = SYSCALL_ARGS;
    if (record->flags & SYSCALL_ARGS_GONE)
        arguments = 0;
    __u64 now = pack_call(segment, used, record, &thread->call[thread->syscalls & 1], filled >> 32, arguments);
    *(volatile __u64 *)&segment->filled = ((filled >> 32) + 1) << 32 | now;
}

/* Puts bytes behind the call that began then, if that was kept.  from: kernel address. */
static __noinline int keep_extra(struct thread_slot *thread, __u64 start_ns, __u32 kind, __u64 from, __u32 length)
{
    struct call_segment *segment = segment_at(thread->newest);
    OPAQUE(length); /* who calls has looked already, which the verifier does not know */
    if (!segment || !length || length > ADDRESS_MAX_LEN)
        return 0;
    __u64 filled = segment->filled;
    __u32 used = filled;
    if (segment->generation != thread->generation || segment->last_ns != start_ns ||
        used > SEGMENT_WORDS - PACKED_EXTRA_WORDS_MAX)
        return 0; /* the call itself found no place */
    segment->words[used] = PACKED_EXTRA | kind << PACKED_EXTRA_KIND_SHIFT | length;
    bpf_probe_read_kernel(&segment->words[used + 1], length, (void *)from);
    *(volatile __u64 *)&segment->filled = filled + 1 + (length + 3) / 4;
    return 0;
}

/* Puts a request of io_uring behind the calls that are over by now.  path: kernel address of what it names, in a map,
 * of so many bytes with its NUL; 0: it names none. */
static __noinline int keep_request(struct thread_slot *thread, const struct io_request *request, __u64 path,
                                   __u32 path_length)
{
    const __u32 *from = (const __u32 *)request;
    if (!thread || !request)
        return 0;
    thread->requests += 1;
    struct call_segment *segment = segment_at(thread->newest);
    __u64 filled = segment ? segment->filled : 0, used = filled & 0xffffffff;
    if (!segment || used > SEGMENT_WORDS - (2 + REQUEST_WORDS + REQUEST_PATH_LEN / 4) ||
        segment->generation != thread->generation) {
        __u64 took = request->duration_ns, until_ns = request->t_ns + (took < NO_DURATION ? took : 0);
        segment = next_segment(thread, until_ns, thread->syscalls - thread->in_call);
        if (!segment) {
            thread->requests_unkept += 1;
            count_loss(LOSS_SEGMENT);
            return 0;
        }
        filled = used = 0;
    }
    __u32 *words = segment->words;
    __u64 at = used + 1, which = 0;
    for (__u32 i = 0; i < REQUEST_WORDS; i++) {
        __u64 has = is_set(from[i]);
        PUT(from[i], has);
        which |= has << i;
    }
    words[used] = PACKED_EXTRA | PACKED_REQUEST << PACKED_EXTRA_KIND_SHIFT | which;
    __u32 has_path = path_length;
    OPAQUE(path_length); /* or both comparisons become one, of another register than the helper gets */
    if (has_path && path_length <= REQUEST_PATH_LEN) {
        words[at] = PACKED_EXTRA | PACKED_REQUEST_PATH << PACKED_EXTRA_KIND_SHIFT | path_length;
        bpf_probe_read_kernel(&words[at + 1], path_length, (void *)path);
        at += 1 + (path_length + 3) / 4;
    }
    *(volatile __u64 *)&segment->filled = (filled >> 32) << 32 | at;
    return 0;
}
