/* SPDX-License-Identifier: GPL-2.0-only
 * The first bytes that a call writes to standard error, or sends or receives through a socket: of processes whose rule
 * asks for them (context.payload).  They are read when the call has returned, when it is known how many they are. */
#pragma once

#include "bpf/segments.bpf.h"
#include "bpf/sockets.bpf.h"

#define STDERR 2
#define PARTS_MAX 8 /* of an I/O vector that are looked at */

/* As many as are kept, and room behind for the verifier, which does not know that a part ends with them. */
struct payload {
    char bytes[2 * PAYLOAD_MAX];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct payload);
} payload_scratch __weak SEC(".maps");

struct io_part { /* struct iovec */
    __u64 at, length;
};

struct io_part_compat {
    __u32 at, length;
};

/* What a walk through an I/O vector knows. */
struct part_walk {
    __u64 vector;
    struct payload *payload;
    __u32 wanted, count;
    __u32 filled;
    __u32 compat;
};

static long next_part(__u32 i, struct part_walk *walk)
{
    struct io_part part;
    struct io_part_compat small;
    __u32 filled = walk->filled;
    if (i >= walk->count || filled >= walk->wanted || filled >= PAYLOAD_MAX)
        return 1;
    if (walk->compat) {
        if (bpf_probe_read_user(&small, sizeof(small), (void *)(walk->vector + i * sizeof(small))))
            return 1;
        part.at = small.at;
        part.length = small.length;
    } else if (bpf_probe_read_user(&part, sizeof(part), (void *)(walk->vector + i * sizeof(part)))) {
        return 1;
    }
    __u64 left = walk->wanted - filled, length = part.length < left ? part.length : left;
    OPAQUE(length);
    if (length > PAYLOAD_MAX)
        return 1;
    if (length && bpf_probe_read_user(walk->payload->bytes + (filled & (PAYLOAD_MAX - 1)), length, (void *)part.at))
        return 1;
    walk->filled = filled + length;
    return 0;
}

/* Where the message's I/O vector stands, and how many parts it has; 0: it cannot be read.  struct user_msghdr and
 * compat_msghdr (include/linux/socket.h, include/net/compat.h). */
static __always_inline int message_parts(struct part_walk *walk, __u64 message)
{
    __u64 count = 0;
    __u32 words[2];
    if (walk->compat) {
        if (bpf_probe_read_user(words, sizeof(words), (void *)(message + 8)))
            return 0;
        walk->vector = words[0];
        count = words[1];
    } else if (bpf_probe_read_user(&walk->vector, sizeof(walk->vector), (void *)(message + 16)) ||
               bpf_probe_read_user(&count, sizeof(count), (void *)(message + 24))) {
        return 0;
    }
    walk->count = count < PARTS_MAX ? count : PARTS_MAX;
    return 1;
}

static __always_inline int carries_payload(__u32 fd, __u32 class)
{
    return (fd == STDERR && !(class & CLASS_RECEIVES)) || socket_of(bpf_get_current_task_btf(), fd);
}

/* Keeps them behind the packed call.  class: as in syscall_class. */
static __noinline int keep_payload(struct thread_slot *thread, struct syscall_record *record, __u32 class)
{
    __u32 zero = 0, call = (class >> CLASS_PAYLOAD_SHIFT) & CLASS_PAYLOAD_MASK;
    struct part_walk walk = {.compat = record->flags & SYSCALL_COMPAT};
    walk.payload = bpf_map_lookup_elem(&payload_scratch, &zero);
    walk.wanted = payload_bytes[thread->rules_generation & 1];
    if (!walk.payload || record->ret <= 0 || !carries_payload(record->args[0], class))
        return 0;
    if (record->ret < walk.wanted)
        walk.wanted = record->ret;
    if (call == PAYLOAD_BUFFER) {
        /* with MSG_TRUNC the result may be more than the buffer holds (recv(2)) */
        __u64 room = record->args[2], length = room < walk.wanted ? room : walk.wanted;
        OPAQUE(length);
        if (!length || length > PAYLOAD_MAX)
            return 0;
        if (!bpf_probe_read_user(walk.payload->bytes, length, (void *)record->args[1]))
            walk.filled = length;
    } else {
        walk.vector = record->args[1];
        walk.count = record->args[2] < PARTS_MAX ? record->args[2] : PARTS_MAX;
        if (call != PAYLOAD_MESSAGE || message_parts(&walk, record->args[1]))
            bpf_loop(PARTS_MAX, next_part, &walk, 0);
    }
    return keep_extra(thread, record->start_ns, PACKED_PAYLOAD, (__u64)walk.payload->bytes, walk.filled);
}
