// SPDX-License-Identifier: GPL-2.0-only
// The OOM killer's choice.
//
// oom:mark_victim runs in the thread that could not get memory, after the victim's SIGKILL
// was sent (mm/oom_kill.c, __oom_kill_process): who allocated is known here only.  A
// classic tracepoint, for its first field is the victim's pid on every kernel, while the
// arguments behind it changed (6.9: task and uid instead of pid).
#include "bpf/trigger.bpf.h"

char LICENSE[] SEC("license") = "GPL";

SEC("tp/oom/mark_victim")
int oom_chosen(struct trace_event_raw_mark_victim *ctx)
{
    struct task_struct *task = bpf_get_current_task_btf();
    struct oom_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
    if (!event) {
        count_loss(LOSS_TRIGGER);
        return 0;
    }
    fill_header(&event->h, EVENT_OOM, task);
    event->victim = BPF_CORE_READ(ctx, pid);
    event->pad = 0;
    copy_comm(event->comm, task);
    event->cgroup_id = cgroup_id_of(task);
    event->cgroup_parts = cgroup_names(task, event->cgroup, &event->cgroup_cut);
    long length = bpf_get_stack(ctx, event->kernel_stack, sizeof(event->kernel_stack), 0);
    event->kernel_frames = length > 0 ? (__u32)length / 8 : 0;
    event->pad1 = 0;
    bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
    return 0;
}
