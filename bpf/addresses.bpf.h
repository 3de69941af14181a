/* SPDX-License-Identifier: GPL-2.0-only
 * The address that a call on a socket names, or the peer that has come by itself, and likewise the events of epoll:
 * read into thread_side.address, where they stay until the thread's next such call, and kept behind the packed call. */
#pragma once

#include "bpf/segments.bpf.h"
#include "bpf/sockets.bpf.h"

static __always_inline __u32 address_call(__u32 class)
{
    return (class >> CLASS_ADDRESS_SHIFT) & CLASS_ADDRESS_MASK;
}

/* thread_side.address is that of the last call from now on. */
static __always_inline void set_address(struct thread_slot *thread, __u32 length)
{
    thread->address_length = length;
    *(volatile __u32 *)&thread->address_of = thread->syscalls; /* at the end: the daemon may look at any time */
}

static __always_inline __u32 has_address(const struct thread_slot *thread)
{
    return thread->address_of == (__u32)thread->syscalls ? thread->address_length : 0;
}

/* Copies the address that the caller has given, if it can be read. */
static __always_inline void read_address(struct thread_slot *thread, struct thread_side *side, __u64 at, __u64 length)
{
    if (length > ADDRESS_MAX_LEN)
        length = ADDRESS_MAX_LEN;
    thread->address_of = 0;
    if (at && length && !bpf_probe_read_user(side->address, length, (void *)at))
        set_address(thread, length);
}

/* Where the message's address stands and how long it is; 0: it cannot be read. */
static __always_inline int message_name(struct syscall_record *record, struct message_name *name)
{
    struct message_name_compat compat;
    if (!(record->flags & SYSCALL_COMPAT))
        return !bpf_probe_read_user(name, sizeof(*name), (void *)record->args[1]);
    if (bpf_probe_read_user(&compat, sizeof(compat), (void *)record->args[1]))
        return 0;
    name->name = compat.name;
    name->length = compat.length;
    return 1;
}

/* Before the call, for afterwards another thread may have changed what the caller gives: an address, or how much room
 * there is for one. */
static __noinline int begin_address(struct thread_slot *thread, __u32 slot, struct syscall_record *record, __u32 call)
{
    struct thread_side *side = bpf_map_lookup_elem(&sides, &slot);
    struct message_name name = {};
    if (!side)
        return 0;
    if (call == ADDRESS_GIVEN)
        read_address(thread, side, record->args[1], (__u32)record->args[2]);
    else if (call == ADDRESS_TO)
        read_address(thread, side, record->args[4], (__u32)record->args[5]);
    else if (call == ADDRESS_SENT && message_name(record, &name))
        read_address(thread, side, name.name, name.length);
    else if (call == EVENTS_GIVEN)
        read_address(thread, side, record->args[3], EPOLL_EVENT_BYTES);
    else
        thread->address_of = 0;
    __u32 room = 0;
    if (call == ADDRESS_FROM && record->args[4])
        bpf_probe_read_user(&room, sizeof(room), (void *)record->args[5]);
    else if (call == ADDRESS_RECEIVED && message_name(record, &name))
        room = name.length;
    if (room)
        thread->address_length = room < ADDRESS_MAX_LEN ? room : ADDRESS_MAX_LEN;
    else if (!thread->address_of)
        thread->address_length = 0;
    return 0;
}

/* Of a call that has received one: the kernel writes as much of it as there was room, and says how long it is. */
static __always_inline void read_received(struct thread_slot *thread, struct thread_side *side,
                                          struct syscall_record *record, __u32 call)
{
    struct message_name name = {};
    __u32 room = thread->address_length;
    thread->address_of = 0;
    /* Most have no room for any.  Where nobody has seen how much there was, neither is known.  Nothing is read for
     * these, for a null pointer costs a page fault: 0.5 to 6 µs. */
    if (!room || record->ret < 0 || record->duration_ns == NO_DURATION)
        return;
    if (call == ADDRESS_RECEIVED) {
        message_name(record, &name);
    } else {
        name.name = record->args[4];
        bpf_probe_read_user(&name.length, sizeof(name.length), (void *)record->args[5]);
    }
    read_address(thread, side, name.name, name.length < room ? name.length : room);
}

/* 0: the call has named none. */
static __noinline int end_address(struct thread_slot *thread, __u32 slot, struct syscall_record *record, __u32 call)
{
    struct thread_side *side = bpf_map_lookup_elem(&sides, &slot);
    if (!side)
        return 0;
    if (call == ADDRESS_ACCEPTED) {
        thread->address_of = 0;
        side->about_peer = 0;
        if (record->ret >= 0)
            set_address(thread,
                        accepted_peer(bpf_get_current_task_btf(), record->ret, side->address, &side->about_peer));
    } else if (call == ADDRESS_FROM || call == ADDRESS_RECEIVED) {
        read_received(thread, side, record, call);
    } else if (call == EVENTS_TAKEN) {
        __u64 count = record->ret < EVENTS_KEPT ? record->ret : EVENTS_KEPT;
        thread->address_of = 0;
        if (record->ret > 0)
            read_address(thread, side, record->args[1], count * EPOLL_EVENT_BYTES);
    } else if (!has_address(thread)) { /* its page was not there at the entry, or nobody has seen that */
        begin_address(thread, slot, record, call);
    }
    __u32 length = has_address(thread);
    if (length < sizeof(__u16) || length > ADDRESS_MAX_LEN)
        return 0;
    __u32 kind = call >= EVENTS_GIVEN ? PACKED_EVENTS : PACKED_ADDRESS;
    keep_extra(thread, record->start_ns, kind, (__u64)side->address, length);
    return kind == PACKED_ADDRESS;
}
