/* SPDX-License-Identifier: GPL-2.0-only
 * The calls of probed functions that a thread is in: maps, and what ends calls without
 * a return (exit, exec). */
#pragma once

#include "bpf/maps.bpf.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct thread_calls);
} calls __weak SEC(".maps");

/* Bit slot % 64 of element slot / 64: the slot's thread has made a probed call.  What a
 * scan of the calls in flight costs depends on them, not on the number of slots. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} call_slots __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PROBES_MAX);
    __type(key, __u32);
    __type(value, struct probe_setting);
} probe_settings __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, PROBES_MAX + 1); /* and EXIT_PROBE */
    __type(key, __u32);
    __type(value, struct probe_count);
} probe_counts __weak SEC(".maps");

/* Stores that the daemon's mapping sees in this order: x86 keeps the order of stores,
 * volatile keeps the compiler from changing it. */
#define STORE(place, value) (*(volatile typeof(place) *)&(place) = (value))

/* Uprobe programs run preemptible (bpf_prog_run_array_uprobe only disables migration), so
 * even a per-CPU counter needs an atomic; nobody contends for it. */
#define COUNT(probe, what)                                                                                             \
    do {                                                                                                               \
        __u32 counted_id = (probe), counted = PROBE_INDEX(counted_id);                                                 \
        struct probe_count *count = bpf_map_lookup_elem(&probe_counts, &counted);                                      \
        if (count)                                                                                                     \
            __sync_fetch_and_add(&count->what, 1);                                                                     \
    } while (0)

static __always_inline void set_listed(struct thread_calls *mine, __u32 slot, __u32 listed)
{
    __u32 word = slot / 64;
    __u64 *bits = bpf_map_lookup_elem(&call_slots, &word);
    if (!bits)
        return;
    if (listed)
        __sync_fetch_and_or(bits, 1ULL << (slot % 64));
    else
        __sync_fetch_and_and(bits, ~(1ULL << (slot % 64)));
    mine->listed = listed;
}

/* The thread is in no call any more: it exits, or runs another program from now on. */
static __noinline int end_calls(__u32 slot)
{
    struct thread_calls *mine = bpf_map_lookup_elem(&calls, &slot);
    if (!mine || !mine->listed)
        return 0;
    for (__u32 i = 0; i < CALL_DEPTH; i++) {
        if (i < mine->depth)
            COUNT(mine->frame[i].probe, missed);
        if (mine->pairs_used & (1u << i))
            COUNT(mine->pair[i].probe, missed);
    }
    STORE(mine->depth, 0);
    STORE(mine->pairs_used, 0);
    set_listed(mine, slot, 0);
    return 0;
}
