// SPDX-License-Identifier: GPL-2.0-only
// Rules about system calls that fail or are slow, about waits that are over, and about
// exits; attached only while such a rule is loaded.
//
// Why sys_exit, after the recorder's own program: the call's record is whole there, the
// thread is in its own context with its user registers and stack still those of the call.
// A wait is reported there too, by the call it happened in (sched.bpf.c sees it end in
// another thread's context).  An exit is taken at the entry of exit_group: at
// sched_process_exit the memory is gone (kernel/exit.c, do_exit: exit_mm comes first).
#include "bpf/trigger.bpf.h"
#include "bpf/wakers.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct call_test {
    struct syscall_record *record;
    __u64 want;       /* conditions to test */
    __u64 hold;       /* those that hold */
    __u64 each;       /* … of which one match is a firing */
    __u32 dump;       /* bit + 1 of the first that asks for a dump */
    __u32 generation; /* of the bits */
};

static long test_call(__u32 bit, struct call_test *test)
{
    if (!(test->want & (1ULL << bit)))
        return 0;
    struct condition_settings *settings = condition_of(test->generation, bit);
    if (!settings)
        return 0;
    __u64 took = test->record->duration_ns;
    if (settings->slower_than_ns && (took >= NO_DURATION || took < settings->slower_than_ns))
        return 0;
    __s64 ret = test->record->ret;
    int failed = ret < 0 && ret >= -4095;
    if (settings->failed && !failed)
        return 0;
    if (settings->errnos[0] | settings->errnos[1] | settings->errnos[2]) {
        __u64 number = failed ? -ret : 0;
        __u64 word = 0;
        if (number > 0 && number < 64)
            word = settings->errnos[0];
        else if (number >= 64 && number < 128)
            word = settings->errnos[1];
        else if (number >= 128 && number < 192)
            word = settings->errnos[2];
        if (!((word >> (number & 63)) & 1))
            return 0;
    }
    test->hold |= 1ULL << bit;
    if (settings->each)
        test->each |= 1ULL << bit;
    if (!test->dump && settings->dump_signal)
        test->dump = bit + 1;
    return 0;
}

static __noinline int report_call(void *ctx, struct task_struct *task, struct thread_slot *thread,
                                  struct call_test *test)
{
    __u32 generation = test->generation;
    struct syscall_record *record = test->record;
    bpf_loop(RULE_BITS, test_call, test, 0);
    if (!test->hold || !record)
        return 0;
    struct syscall_trigger *trigger =
        may_send(task, sizeof(*trigger), SHARE_OTHERS) ? bpf_ringbuf_reserve(&events, sizeof(*trigger), 0) : 0;
    if (!trigger) {
        count_loss(LOSS_TRIGGER);
        return 0;
    }
    fill_trigger(&trigger->t, TRIGGER_SYSCALL, task, test->hold, generation);
    trigger->start_ns = record->start_ns;
    trigger->duration_ns = record->duration_ns;
    trigger->ret = record->ret;
    trigger->nr = record->nr;
    trigger->flags = record->flags;
    __builtin_memcpy(trigger->args, record->args, sizeof(trigger->args));
    int capture = may_capture(task, test->each);
    trigger->t.captured = capture;
    if (test->dump) {
        trigger->t.dump_bit = test->dump - 1;
        trigger->t.dumped = dump_here(task, thread, test->dump - 1, generation);
    }
    bpf_ringbuf_submit(trigger, capture ? BPF_RB_NO_WAKEUP : 0);
    if (capture)
        capture_here(ctx, task);
    return 0;
}

static __noinline int report_wait(void *ctx, struct task_struct *task, struct syscall_record *record,
                                  struct thread_slot *thread, __u32 generation)
{
    __u64 rules = bits_of(thread, generation) & blocked_rules[generation & 1];
    thread->blocked_ns = 0;
    if (!rules)
        return 0;
    __u32 tid = BPF_CORE_READ(task, pid);
    struct blocked_trigger *trigger =
        may_send(task, sizeof(*trigger), SHARE_OTHERS) ? bpf_ringbuf_reserve(&events, sizeof(*trigger), 0) : 0;
    if (!trigger) {
        count_loss(LOSS_TRIGGER);
        return 0;
    }
    fill_trigger(&trigger->t, TRIGGER_BLOCKED, task, rules, generation);
    fill_wait(trigger, thread, tid);
    trigger->nr = record->nr;
    trigger->syscall_flags = record->flags;
    int capture = may_capture(task, rules);
    trigger->t.captured = capture;
    bpf_ringbuf_submit(trigger, capture ? BPF_RB_NO_WAKEUP : 0);
    if (capture)
        capture_here(ctx, task);
    return 0;
}

static __always_inline int judge_call(void *ctx, struct thread_slot *thread)
{
    struct task_struct *task = bpf_get_current_task_btf();
    thread->judged = thread->syscalls;
    struct syscall_record *record = &thread->call[(thread->syscalls - 1) & 1];
    __u32 compat = record->flags & SYSCALL_COMPAT, generation = *(volatile __u32 *)&rules_generation;
    struct call_test test = {.record = record, .generation = generation};
    test.want = syscall_rules_of[generation & 1][compat & 1][record->nr & (SYSCALL_CLASSES - 1)] &
                bits_of(thread, generation) & syscall_rules[generation & 1];
    if (test.want)
        report_call(ctx, task, thread, &test);
    if (thread->blocked_ns) {
        __u32 class = syscall_class[compat & 1][record->nr & (SYSCALL_CLASSES - 1)];
        if ((class & CLASS_IDLE) && !blocked_idle[generation & 1])
            thread->blocked_ns = 0;
        else
            report_wait(ctx, task, record, thread, generation);
    }
    return 0;
}

/* Strangers go first: of most of the machine's calls nothing is asked but who makes them, which record_exit has just
 * found out (callers.bpf.h). */
SEC("tp_btf/sys_exit")
int BPF_PROG(call_over, struct pt_regs *regs, long ret)
{
    __u32 value = known_caller(registers_at(regs)), slot = value - 1;
    struct thread_slot *thread = 0;
    if (!value)
        thread = slot_of_tid(bpf_get_current_task_btf()->pid, &slot);
    else if (slot < slots)
        thread = bpf_map_lookup_elem(&threads, &slot);
    if (!thread)
        return 0;
    __u32 generation = *(volatile __u32 *)&rules_generation;
    __u64 mine = bits_of(thread, generation) & (syscall_rules[generation & 1] | blocked_rules[generation & 1]);
    /* no call of the program's own may have returned here: a child's from fork, a probe's trampoline's */
    if (!mine || thread->in_call || thread->judged == thread->syscalls)
        return 0;
    __u64 began = own_begin();
    judge_call(ctx, thread);
    own_end(began, mine, OWN_CALL_OVER);
    return 0;
}

struct exit_test {
    __u64 want, hold;
    __u32 status;
    __u32 generation;
};

static long test_exit(__u32 bit, struct exit_test *test)
{
    if (!(test->want & (1ULL << bit)))
        return 0;
    struct condition_settings *settings = condition_of(test->generation, bit);
    if (settings && ((settings->statuses[(test->status >> 6) & 3] >> (test->status & 63)) & 1))
        test->hold |= 1ULL << bit;
    return 0;
}

static __noinline int report_exit(void *ctx, struct task_struct *task, struct thread_slot *thread, __u32 status)
{
    __u32 generation = *(volatile __u32 *)&rules_generation;
    struct exit_test test = {
        .want = bits_of(thread, generation) & exit_rules[generation & 1], .status = status, .generation = generation};
    bpf_loop(RULE_BITS, test_exit, &test, 0);
    __u64 hold = test.hold;
    if (!hold)
        return 0;
    struct exit_trigger *trigger =
        may_send(task, sizeof(*trigger), SHARE_OTHERS) ? bpf_ringbuf_reserve(&events, sizeof(*trigger), 0) : 0;
    if (!trigger) {
        count_loss(LOSS_TRIGGER);
        return 0;
    }
    fill_trigger(&trigger->t, TRIGGER_EXIT, task, hold, generation);
    trigger->status = status;
    trigger->pad = 0;
    int capture = may_capture(task, hold);
    trigger->t.captured = capture;
    bpf_ringbuf_submit(trigger, capture ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP);
    if (capture)
        capture_here(ctx, task);
    return 0;
}

#define NR_EXIT_GROUP 231      /* arch/x86/entry/syscalls/syscall_64.tbl */
#define NR_EXIT_GROUP_IA32 252 /* syscall_32.tbl */

SEC("tp_btf/sys_enter")
int BPF_PROG(call_begins, struct pt_regs *regs, long nr)
{
    if (nr != NR_EXIT_GROUP && nr != NR_EXIT_GROUP_IA32)
        return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 compat = (task->thread_info.status & TS_COMPAT_FLAG) ? 1 : 0;
    if (nr != (compat ? NR_EXIT_GROUP_IA32 : NR_EXIT_GROUP))
        return 0;
    __u32 slot = 0;
    struct thread_slot *thread = slot_of_tid(task->pid, &slot);
    if (!thread)
        return 0;
    __u32 status = (compat ? regs->bx : regs->di) & 0xff;
    return report_exit(ctx, task, thread, status);
}
