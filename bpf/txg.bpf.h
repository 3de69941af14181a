/* SPDX-License-Identifier: GPL-2.0-only
 * A ZFS pool's transaction group is being written: the state both ways of seeing it
 * (txg.bpf.c by kprobe, txg_fentry.bpf.c by fentry) keep.
 *
 * Why spa_sync(spa_t *spa, uint64_t txg): txg_sync_thread() calls it once for each
 * group of a pool, between the kstat's "waiting" and "synced" (module/zfs/txg.c), with
 * all of the group's writing inside.  txg_sync_thread() itself returns only when the
 * pool is exported, and the zfs:zfs_txg tracepoints are not built on Linux.
 *
 * A call is entered here at its start, so that a stall is seen while it lasts: the daemon
 * reads the entries through a mapping, at the times its deadlines fall due, and nobody
 * is woken for a sync that is quick. */
#pragma once

#include "bpf/maps.bpf.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, TXG_SYNCS);
    __type(key, __u32);
    __type(value, struct txg_sync);
} txg_syncs __weak SEC(".maps");

/* [0]: syncs at least this long send an event when they return, ns; 0: none does */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} txg_threshold __weak SEC(".maps");

/* The entry of this thread, or, where it has none, a free one made its own. */
static __always_inline struct txg_sync *txg_entry(__u32 tid, bool claim)
{
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < TXG_SYNCS; i++) {
        __u32 index = i;
        struct txg_sync *sync = bpf_map_lookup_elem(&txg_syncs, &index);
        if (sync && sync->tid == tid) /* also where the last return was missed */
            return sync;
    }
    if (!claim)
        return NULL;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < TXG_SYNCS; i++) {
        __u32 index = i;
        struct txg_sync *sync = bpf_map_lookup_elem(&txg_syncs, &index);
        if (sync && __sync_val_compare_and_swap(&sync->tid, 0, tid) == 0)
            return sync;
    }
    return NULL;
}

/* seq is odd while an entry is written.  A barrier for the compiler suffices: x86 keeps
 * the order of stores. */
static __always_inline void txg_write_begin(struct txg_sync *sync)
{
    *(volatile __u64 *)&sync->seq |= 1;
    barrier();
}

static __always_inline void txg_write_end(struct txg_sync *sync)
{
    barrier();
    *(volatile __u64 *)&sync->seq += 1;
}

static __always_inline void txg_begin(const void *spa, __u64 txg)
{
    struct txg_sync *sync = txg_entry((__u32)bpf_get_current_pid_tgid(), true);
    if (!sync) {
        count_loss(LOSS_TXG_SYNC);
        return;
    }
    txg_write_begin(sync);
    sync->txg = txg;
    sync->start_ns = bpf_ktime_get_ns();
    sync->in_flight = 1;
    /* struct spa begins with char spa_name[ZFS_MAX_DATASET_NAME_LEN] (OpenZFS,
     * include/sys/spa_impl.h), in 0.8 as in 2.3: no BTF of the module is needed for it. */
    if (bpf_probe_read_kernel_str(sync->pool, sizeof(sync->pool), spa) < 0)
        sync->pool[0] = 0;
    txg_write_end(sync);
}

static __always_inline void txg_end(void)
{
    __u64 now = bpf_ktime_get_ns();
    __u32 zero = 0, tid = (__u32)bpf_get_current_pid_tgid();
    struct txg_sync *sync = txg_entry(tid, false);
    if (!sync || !sync->in_flight) /* entered before the probes were there */
        return;
    __u64 elapsed = now - sync->start_ns;
    __u64 *threshold = bpf_map_lookup_elem(&txg_threshold, &zero);
    if (threshold && *threshold && elapsed >= *threshold) {
        struct txg_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
        if (event) {
            __builtin_memset(&event->h, 0, sizeof(event->h));
            event->h.kind = EVENT_TXG;
            event->h.layout = EVENT_LAYOUT;
            event->h.t_ns = now;
            event->h.tgid = bpf_get_current_pid_tgid() >> 32;
            event->h.tid = tid;
            event->txg = sync->txg;
            event->start_ns = sync->start_ns;
            event->elapsed_ns = elapsed;
            __builtin_memcpy(event->pool, sync->pool, sizeof(event->pool));
            bpf_ringbuf_submit(event, 0);
        } else {
            count_loss(LOSS_TXG_EVENT);
        }
    }
    txg_write_begin(sync);
    sync->in_flight = 0;
    txg_write_end(sync);
    *(volatile __u32 *)&sync->tid = 0;
}
