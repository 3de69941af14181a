// SPDX-License-Identifier: GPL-2.0-only
// The OOM killer's choice.
//
// oom:mark_victim runs in the thread that could not get memory, after the victim's SIGKILL
// was sent (mm/oom_kill.c, __oom_kill_process): who allocated is known here only.  A
// classic tracepoint, for its first field is the victim's pid on every kernel, while the
// arguments behind it changed (6.9: task and uid instead of pid).
#include "bpf/trigger.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* From the innermost outwards, read before the victim has given anything back. */
static __always_inline __u32 memory_levels(struct task_struct *task, struct memory_level *level)
{
    if (!bpf_core_enum_value_exists(enum cgroup_subsys_id, memory_cgrp_id))
        return 0;
    struct cgroup_subsys_state *css = NULL;
    struct css_set *set = BPF_CORE_READ(task, cgroups);
    bpf_core_read(&css, sizeof(css), &set->subsys[bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id)]);
    for (int i = 0; i < MEMORY_LEVELS; i++) {
        if (!css)
            return i;
        struct mem_cgroup *group = (void *)css - bpf_core_field_offset(struct mem_cgroup, css);
        level[i].depth = BPF_CORE_READ(css, cgroup, level);
        level[i].pad = 0;
        level[i].usage_pages = BPF_CORE_READ(group, memory.usage.counter);
        level[i].max_pages = BPF_CORE_READ(group, memory.max);
        css = BPF_CORE_READ(css, parent);
    }
    return MEMORY_LEVELS;
}

static __always_inline void see_victim(struct trace_event_raw_mark_victim *ctx)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct oom_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
    if (!event) {
        count_loss(LOSS_TRIGGER);
        return;
    }
    fill_header(&event->h, EVENT_OOM, task);
    event->victim = BPF_CORE_READ(ctx, pid);
    event->pad = 0;
    copy_comm(event->comm, task);
    event->cgroup_id = cgroup_id_of(task);
    event->cgroup_parts = cgroup_names(task, event->cgroup, &event->cgroup_cut);
    long length = bpf_get_stack(ctx, event->kernel_stack, sizeof(event->kernel_stack), 0);
    event->kernel_frames = length > 0 ? (__u32)length / 8 : 0;
    event->memory_levels = memory_levels(task, event->memory);
    bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
}

SEC("tp/oom/mark_victim")
int oom_chosen(struct trace_event_raw_mark_victim *ctx)
{
    see_victim(ctx);
    return SEEN_BY_OTHERS;
}
