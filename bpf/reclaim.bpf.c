// SPDX-License-Identifier: GPL-2.0-only
// Waits for memory: direct reclaim (the host is short) and memory-cgroup reclaim (a limit
// is near), of every thread of the machine; attached only while a rule wants them.
//
// Begin and end run in the thread that waits, so its time is keyed by tid; one reclaim
// cannot begin inside another (PF_MEMALLOC), but a memory cgroup's and the host's are two
// pairs of tracepoints.  The stack is taken at the end: it shows who wanted memory.
#include "bpf/trigger.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct reclaim_start {
    __u64 start_ns;
    __u32 order, gfp_flags;
};

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 4096);
    __type(key, __u64); /* tid, and 1 << 32 for a memory cgroup's */
    __type(value, struct reclaim_start);
} reclaims SEC(".maps");

static __always_inline int begin(__u64 cgroup, int order, __u32 gfp_flags)
{
    __u64 key = (__u32)bpf_get_current_pid_tgid() | cgroup << 32;
    struct reclaim_start start = {.start_ns = bpf_ktime_get_ns(), .order = order, .gfp_flags = gfp_flags};
    if (bpf_map_update_elem(&reclaims, &key, &start, BPF_ANY))
        count_loss(LOSS_IN_FLIGHT);
    return 0;
}

static __noinline int end(void *ctx, __u64 cgroup, __u64 reclaimed)
{
    __u64 began = own_begin();
    __u64 key = (__u32)bpf_get_current_pid_tgid() | cgroup << 32;
    struct reclaim_start *start = bpf_map_lookup_elem(&reclaims, &key);
    if (!start)
        return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    /* strangers' are told too: they are what the host waits for as well */
    __u32 generation = *(volatile __u32 *)&rules_generation;
    __u64 mine = rules_of_task(task, generation) & reclaim_rules[generation & 1];
    struct reclaim_trigger *trigger =
        may_send(task, sizeof(*trigger), SHARE_OTHERS) ? bpf_ringbuf_reserve(&events, sizeof(*trigger), 0) : 0;
    if (!trigger) {
        count_loss(LOSS_TRIGGER);
        bpf_map_delete_elem(&reclaims, &key);
        return 0;
    }
    fill_trigger(&trigger->t, TRIGGER_RECLAIM, task, reclaim_rules[generation & 1], generation);
    trigger->start_ns = start->start_ns;
    trigger->duration_ns = trigger->t.h.t_ns - start->start_ns;
    trigger->reclaimed = reclaimed;
    trigger->order = start->order;
    trigger->gfp_flags = start->gfp_flags;
    trigger->cgroup = cgroup;
    long length = bpf_get_stack(ctx, trigger->kernel_stack, sizeof(trigger->kernel_stack), 0);
    trigger->kernel_frames = length > 0 ? (__u32)length / 8 : 0;
    bpf_ringbuf_submit(trigger, 0);
    bpf_map_delete_elem(&reclaims, &key);
    if (mine)
        own_end(began, mine, cgroup ? OWN_CGROUP_RECLAIM_ENDS : OWN_DIRECT_RECLAIM_ENDS);
    return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(direct_reclaim_begins, int order, __u32 gfp_flags)
{
    return begin(0, order, gfp_flags);
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(direct_reclaim_ends, unsigned long reclaimed)
{
    return end(ctx, 0, reclaimed);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(cgroup_reclaim_begins, int order, __u32 gfp_flags)
{
    return begin(1, order, gfp_flags);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(cgroup_reclaim_ends, unsigned long reclaimed)
{
    return end(ctx, 1, reclaimed);
}
