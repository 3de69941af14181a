// SPDX-License-Identifier: GPL-2.0-only
// Every thread of a living process, from outside, when a rule has fired for it.
//
// A task iterator with the process as its filter (6.1) walks the threads without stopping
// them.  Not a sleepable one: reading another process's memory takes its mmap_lock, which
// in just those incidents may be held for long, and the daemon's loop must not wait for
// it; the stack's bytes are read by the collectors, which have a deadline.  Of a blocked
// thread the registers are exact; of a running one they are those of its last entry to the
// kernel, and the event says which.
#include "bpf/trigger.bpf.h"

#define PF_EXITING 0x00000004 /* include/linux/sched.h */

char LICENSE[] SEC("license") = "GPL";

SEC("iter/task")
int snapshot_thread(struct bpf_iter__task *ctx)
{
    struct task_struct *task = ctx->task;
    if (!task)
        return 0;
    if (task->pid == task->tgid) {
        struct capture capture = {.role = ROLE_LIVING, .event = EVENT_SNAPSHOT, .foreign = 1};
        capture_process(task, &capture);
    }
    /* A thread that has given up its memory has no registers and no stack.  The daemon says that it is missing. */
    if (!task->mm && (task->flags & PF_EXITING))
        return 0;
    capture_returns(task, share_of(task), SHARE_OTHERS);
    struct thread_event *event = leaves_room_for_deaths() ? bpf_ringbuf_reserve(&events, sizeof(*event), 0) : 0;
    if (!event) {
        count_loss(LOSS_THREAD_EVENT);
        return 0;
    }
    __u64 begin = bpf_ktime_get_ns();
    struct mm_struct *mm = BPF_CORE_READ(task, mm);
    __u32 slot = 0;
    struct thread_slot *thread = slot_of_tid(task->pid, &slot);
    fill_header(&event->h, EVENT_THREAD, task);
    event->role = ROLE_LIVING;
    event->delivered = 0;
    event->slot = thread ? slot : ~0u;
    event->is_worker = is_worker(task);
    event->generation = thread ? thread->generation : 0;
    copy_comm(event->comm, task);
    struct pt_regs regs = {};
    if (task->mm && !event->is_worker)
        bpf_probe_read_kernel(&regs, sizeof(regs), (void *)bpf_task_pt_regs(task));
    copy_registers(&event->regs, &regs, task);
    copy_usage(event, task);
    event->state = task->__state;
    long length = bpf_get_task_stack(task, event->kernel_stack, sizeof(event->kernel_stack), 0);
    event->kernel_frames = length > 0 ? (__u32)length / 8 : 0;
    event->kernel_stack_error = length < 0 ? length : 0;
    for (int i = 0; i < REGISTER_WINDOWS; i++) {
        event->window[i].status = WINDOW_UNUSED;
        event->window[i].length = 0;
        event->window[i].address = 0;
        event->window[i].which = 255;
    }
    event->stack_address = 0;
    event->stack_length = 0;
    event->stack_wanted = stack_pages_max * STACK_PAGE;
    event->stack_unsent = 0;
    event->capture_ns = bpf_ktime_get_ns() - begin;
    recheck_header(&event->h, task, mm);
    bpf_ringbuf_submit(event, BPF_RB_NO_WAKEUP);
    return 0;
}
