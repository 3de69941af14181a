// SPDX-License-Identifier: GPL-2.0-only
// Waits off the CPU; attached only while a "blocked" rule is loaded, for it is on every
// context switch of the machine.
//
// sched_switch runs in the thread that leaves: a wait begins there for the one going out
// with a state other than running (preempted is not blocked), keyed by its own tid, and
// ends for the one coming in.  sched_waking runs in the waker's context while the sleeper
// still sleeps: the one place where both stacks are there.  Where the wait was part of a
// system call, that call's return reports it (syscall_rules.bpf.c), with the thread in its
// own context; other waits (page faults) are reported here without a capture.
#include "bpf/wakers.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Empty, but for the record of a waker being made. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct waker);
} waker_scratch SEC(".maps");

static __noinline int report_wait_elsewhere(struct task_struct *task, struct thread_slot *thread)
{
    __u32 tid = BPF_CORE_READ(task, pid), generation = *(volatile __u32 *)&rules_generation;
    __u64 rules = bits_of(thread, generation) & blocked_rules[generation & 1];
    thread->blocked_ns = 0;
    if (!rules)
        return 0;
    struct blocked_trigger *trigger =
        may_send(task, sizeof(*trigger), SHARE_OTHERS) ? bpf_ringbuf_reserve(&events, sizeof(*trigger), 0) : 0;
    if (!trigger) {
        count_loss(LOSS_TRIGGER);
        return 0;
    }
    fill_trigger(&trigger->t, TRIGGER_BLOCKED, task, rules, generation);
    fill_wait(trigger, thread, tid);
    trigger->nr = -1;
    trigger->syscall_flags = 0;
    /* in the scheduler, with the run queue locked: a wake-up of the reader would need that lock */
    bpf_ringbuf_submit(trigger, BPF_RB_NO_WAKEUP);
    return 0;
}

static __always_inline void leave_cpu(struct thread_slot *thread, __u32 state)
{
    thread->off_state = state;
    thread->off_ns = state ? bpf_ktime_get_ns() : 0;
}

static __always_inline void enter_cpu(struct thread_slot *thread, struct task_struct *task, __u64 rules,
                                      __u64 threshold_ns)
{
    __u64 now = bpf_ktime_get_ns(), blocked = now - thread->off_ns;
    if (blocked >= threshold_ns && rules && blocked > thread->blocked_ns) {
        thread->blocked_ns = blocked;
        thread->blocked_from_ns = thread->off_ns;
        thread->blocked_until_ns = now;
        if (!thread->in_call)
            report_wait_elsewhere(task, thread);
    }
    thread->off_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(thread_switched, bool preempt, struct task_struct *prev, struct task_struct *next)
{
    __u32 slot = 0, generation = *(volatile __u32 *)&rules_generation;
    __u64 wanted = blocked_rules[generation & 1];
    struct thread_slot *leaves = slot_of_tid(prev->pid, &slot), *comes = slot_of_tid(next->pid, &slot);
    __u64 of_leaving = leaves ? bits_of(leaves, generation) & wanted : 0;
    if (comes && !comes->off_ns)
        comes = 0;
    __u64 of_coming = comes ? bits_of(comes, generation) & wanted : 0;
    if (!of_leaving && !comes)
        return 0;
    __u64 began = own_begin();
    if (leaves && of_leaving) /* a worker of io_uring's sleeps because there is nothing to do */
        leave_cpu(leaves, preempt || (prev->flags & PF_IO_WORKER) ? 0 : prev->__state);
    if (comes)
        enter_cpu(comes, next, of_coming, blocked_min_ns[generation & 1]);
    own_end(began, of_leaving | of_coming, OWN_THREAD_SWITCHED);
    return 0;
}

static __noinline int note_waker(void *ctx, struct task_struct *sleeper, __u64 off)
{
    __u32 zero = 0, tid = BPF_CORE_READ(sleeper, pid);
    __u64 now = bpf_ktime_get_ns();
    if (now - off < blocked_min_ns[rules_generation & 1])
        return 0;
    struct waker *waker = bpf_map_lookup_elem(&waker_scratch, &zero);
    if (!waker)
        return 0;
    struct task_struct *current = bpf_get_current_task_btf();
    waker->woken_ns = now;
    waker->off_ns = off;
    waker->start_boot_ns = BPF_CORE_READ(current, group_leader, start_boottime);
    waker->tgid = current->tgid;
    waker->tid = current->pid;
    copy_comm(waker->comm, current);
    long length = bpf_get_task_stack(sleeper, waker->sleeper_stack, sizeof(waker->sleeper_stack), 0);
    waker->sleeper_frames = length > 0 ? (__u32)length / 8 : 0;
    length = bpf_get_stack(ctx, waker->kernel_stack, sizeof(waker->kernel_stack), 0);
    waker->kernel_frames = length > 0 ? (__u32)length / 8 : 0;
    length = bpf_get_stack(ctx, waker->user_stack, sizeof(waker->user_stack), BPF_F_USER_STACK);
    waker->user_frames = length > 0 ? (__u32)length / 8 : 0;
    end_at_trampoline(waker);
    bpf_map_update_elem(&wakers, &tid, waker, BPF_ANY);
    return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(thread_woken, struct task_struct *sleeper)
{
    __u32 slot = 0;
    struct thread_slot *thread = slot_of_tid(sleeper->pid, &slot);
    __u64 off = thread ? thread->off_ns : 0; /* 0 but of threads a rule is about */
    if (!off)
        return 0;
    __u32 generation = *(volatile __u32 *)&rules_generation;
    __u64 began = own_begin(), mine = bits_of(thread, generation) & blocked_rules[generation & 1];
    note_waker(ctx, sleeper, off);
    own_end(began, mine, OWN_THREAD_WOKEN);
    return 0;
}
