/* SPDX-License-Identifier: GPL-2.0-only
 * What of a call is a fact to be remembered (bpf/tallies.h).  The functions that tally are called from the program
 * itself, for the frames of a chain of calls share 512 bytes; and they are not static: then the verifier walks each
 * once. */
#pragma once

#include "bpf/addresses.bpf.h"
#include "bpf/tallies.bpf.h"
#include "bpf/watch.bpf.h"

/* What all facts about a call have in common. */
static __always_inline void begin_ask(struct tally_ask *ask, const struct thread_slot *thread,
                                      const struct syscall_record *record, __u32 class, __u32 kind)
{
    __u64 took = record->duration_ns;
    __builtin_memset(ask, 0, sizeof(*ask));
    ask->process_start_boot_ns = thread->process_start_boot_ns;
    ask->ret = record->ret;
    ask->took_ns = took == NO_DURATION ? 0 : took;
    ask->now_ns = record->start_ns + ask->took_ns;
    ask->tgid = thread->tgid;
    ask->tid = thread->tid;
    ask->share = thread->share;
    ask->nr = record->nr;
    ask->kind = kind;
    ask->flags = (record->flags & SYSCALL_COMPAT ? TALLY_COMPAT : 0) | (class & CLASS_IDLE ? TALLY_IDLE : 0);
}

/* What of an address makes it this one: what is behind it in the caller's memory, of which more was given, does not. */
static __always_inline __u32 significant(char *address, __u32 length)
{
    __u16 family = *(__u16 *)address;
    if (family == AF_INET_FAMILY && length >= 16) { /* struct sockaddr_in */
        *(__u64 *)(address + 8) = 0;
        return 16;
    }
    if (family == AF_INET6_FAMILY && length >= 28) { /* struct sockaddr_in6 */
        *(__u32 *)(address + 4) = 0;                 /* the flow label */
        return 28;
    }
    if (family == AF_UNIX_FAMILY && length > 2 && address[2]) { /* a path, up to a NUL */
        __u32 end = 3;
        for (; end < TALLY_NAME && end < length && address[end]; end++)
            ;
        return end;
    }
    return length < TALLY_NAME ? length : TALLY_NAME;
}

static __always_inline int comes_by_itself(__u32 call)
{
    return call == ADDRESS_ACCEPTED || call == ADDRESS_FROM || call == ADDRESS_RECEIVED;
}

/* Remembers whom the call has named. */
__weak int tally_peer(struct thread_slot *thread, __u32 slot, struct syscall_record *record)
{
    struct tally_ask ask;
    struct thread_side *side = bpf_map_lookup_elem(&sides, &slot);
    if (!side || !thread || !record)
        return 0;
    char *address = side->address;
    thread->address_length = significant(address, has_address(thread));
    /* Read again: for each length that it may have come by, the verifier would walk what follows. */
    __u32 call = address_call(thread->after), length = *(volatile __u16 *)&thread->address_length;
    __u16 *port = (__u16 *)(address + 2), said = *port, family = *(__u16 *)address;
    int without_port = comes_by_itself(call) && (family == AF_INET_FAMILY || family == AF_INET6_FAMILY);
    begin_ask(&ask, thread, record, thread->after, TALLY_PEER);
    ask.value = call == ADDRESS_ACCEPTED ? side->about_peer : (__u32)record->args[0];
    if (without_port) { /* each of a client's connections has another */
        if (call != ADDRESS_ACCEPTED)
            ask.value = __builtin_bswap16(said);
        *port = 0;
    }
    ask.length = length;
    ask.name_at = (__u64)address;
    ask.hash = hash_name(address, length, ADDRESS_MAX_LEN / 8);
    tally_in(&ask, TALLY_REGION_PEER);
    if (without_port)
        *port = said;
    return 0;
}

/* Whether the level is higher than any of the process before.  So a fact of growth is met once, when it was reached. */
static __noinline int is_highest(struct thread_slot *thread, __u32 level, __u32 of_memory)
{
    __u32 tgid = thread->tgid;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (!process || process->start_boot_ns != thread->process_start_boot_ns)
        return 0;
    __u32 *highest = of_memory ? &process->memory_level : &process->descriptor_level;
    if (level <= *highest)
        return 0;
    *highest = level;
    return 1;
}

__weak int tally_growth(struct thread_slot *thread, struct syscall_record *record, __u32 kind, __u64 value)
{
    struct tally_ask ask;
    if (!thread || !record)
        return 0;
    __u32 level = level_of(value), of_memory = kind == TALLY_MEMORY;
    __u8 *told = of_memory ? &thread->memory_level : &thread->descriptor_level;
    if (level <= *told)
        return 0;
    *told = level;
    if (!is_highest(thread, level, of_memory))
        return 0;
    begin_ask(&ask, thread, record, 0, kind);
    ask.nr = 0;
    ask.ret = 0;
    ask.flags = 0;
    ask.code = level;
    ask.value = value;
    return tally_in(&ask, TALLY_REGION_OTHER);
}

/* What else is a fact about a call: that it failed, or lasted long. */
__weak int tally_call(struct thread_slot *thread, struct syscall_record *record, __u32 class)
{
    struct tally_ask ask;
    if (!thread || !record)
        return 0;
    if (has_failed(record->ret)) {
        begin_ask(&ask, thread, record, class, TALLY_FAILURE);
        ask.code = -record->ret;
        ask.value = record->args[0];
        tally_in(&ask, TALLY_REGION_OTHER);
    }
    if (record->duration_ns >= TALLY_SLOW_NS && record->duration_ns != NO_DURATION) {
        begin_ask(&ask, thread, record, class, TALLY_SLOW);
        ask.code = slow_step(record->duration_ns);
        ask.value = record->args[0];
        tally_in(&ask, TALLY_REGION_OTHER);
    }
    return 0;
}

/* sigreturn's result is what the program's register held before the handler. */
static __always_inline int is_notable(const struct syscall_record *record, __u32 class)
{
    return !(class & CLASS_SIGRETURN) && ((class & CLASS_NEW_FD) || (__u64)record->ret >= -4095ULL ||
                                          record->duration_ns - TALLY_SLOW_NS < NO_DURATION - TALLY_SLOW_NS);
}
