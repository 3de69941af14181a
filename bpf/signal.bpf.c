// SPDX-License-Identifier: GPL-2.0-only
// Signals: who sent them, and what dies of them.
//
// signal_generate runs in the sender: the only place that knows it.  signal_deliver
// runs in the target thread, just before the kernel acts: the disposition found there
// decides, not a guess made earlier.  When a process dies by a signal every one of its
// threads passes signal_deliver once, in its own context — the one that took the signal
// with it, all others with SIGKILL (kernel/signal.c, get_signal) — which is the last
// moment at which its registers and stack can be read without a race.
#include "bpf/address_space.bpf.h"
#include "bpf/kept.bpf.h"
#include "bpf/pointers.bpf.h"
#include "bpf/tallies.bpf.h"
#include "bpf/trigger.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define SIGNAL_UNKILLABLE_FLAG 0x40 /* include/linux/sched/signal.h */
#define SIGNAL_GROUP_EXIT_FLAG 0x04
#define SIGKILL_NUMBER 9
#define SIGSTOP_NUMBER 19
#define SIGCHLD_NUMBER 17
#define SIGNAL_RESULT_IGNORED 1 /* TRACE_SIGNAL_IGNORED, include/trace/events/signal.h */
#define BIT(number) (1ULL << ((number)-1))
/* kernel/signal.c SIG_KERNEL_IGNORE_MASK: SIGCONT SIGCHLD SIGWINCH SIGURG */
#define DEFAULT_IGNORED (BIT(18) | BIT(17) | BIT(28) | BIT(23))
/* SIG_KERNEL_STOP_MASK: SIGSTOP SIGTSTP SIGTTIN SIGTTOU */
#define DEFAULT_STOPS (BIT(19) | BIT(20) | BIT(21) | BIT(22))

static __always_inline struct signal_record *begin_signal(struct process_entry *process, __u64 *index)
{
    *index = __sync_fetch_and_add(&process->signals, 1);
    struct signal_record *record = &process->signal[*index & (SIGNAL_RECORDS - 1)];
    record->seq = 0;
    record->t_ns = bpf_ktime_get_ns();
    return record;
}

static __always_inline void copy_siginfo(struct signal_record *record, struct kernel_siginfo *info)
{
    record->code = 0;
    record->si_errno = 0;
    record->address = 0;
    if ((unsigned long)info <= 1) { /* SEND_SIG_NOINFO, SEND_SIG_PRIV: no siginfo of its own */
        /* Both are the kernel's: kill(2) always has a siginfo.  That NOINFO is delivered as SI_USER of
         * whoever ran (SIGXFSZ, SIGPIPE) makes nobody its sender. */
        record->code = 0x80 /* SI_KERNEL */;
        return;
    }
    record->code = BPF_CORE_READ(info, si_code);
    record->si_errno = BPF_CORE_READ(info, si_errno);
    record->address = record->code > 0 ? (__u64)BPF_CORE_READ(info, _sifields._sigfault._addr)
                                       : (__u64)BPF_CORE_READ(info, _sifields._rt._sigval.sival_ptr);
}

/* Who sent the signal that is delivered as that record: as was written last when one like it was sent. */
static __noinline int copy_sender(struct process_entry *process, struct signal_record *record)
{
    for (__u32 i = 1; i < SIGNAL_RECORDS; i++) {
        struct signal_record *sent = &process->signal[(record->seq - 1 - i) & (SIGNAL_RECORDS - 1)];
        if (sent->phase != SIGNAL_GENERATED || sent->number != record->number)
            continue;
        record->sender_tgid = sent->sender_tgid;
        record->sender_tid = sent->sender_tid;
        record->sender_start_boot_ns = sent->sender_start_boot_ns;
        record->sender_uid = sent->sender_uid;
        __builtin_memcpy(record->sender_comm, sent->sender_comm, COMM_LEN);
        return 1;
    }
    return 0;
}

/* Tells of a signal that does not kill, without a capture.  One that its target ignores is dropped where it is sent
 * (kernel/signal.c, prepare_signal) and never passes signal_deliver: it is told of in the sender's context.
 * process: the target's, of one that is delivered. */
static __noinline int report_signal(struct task_struct *target, struct signal_record *record, __u32 disposition,
                                    struct process_entry *process)
{
    __u32 generation = *(volatile __u32 *)&rules_generation;
    __u64 rules = rules_of_task(target, generation) & signal_rules[generation & 1];
    if (!rules)
        return 0;
    __u32 share = share_of(target);
    struct signal_trigger *trigger = admit_signal(share) && admit(share, sizeof(*trigger), SHARE_OTHERS)
                                         ? bpf_ringbuf_reserve(&events, sizeof(*trigger), 0)
                                         : 0;
    if (!trigger) {
        count_loss(LOSS_TRIGGER);
        return 0;
    }
    fill_trigger(&trigger->t, TRIGGER_SIGNAL, target, rules, generation);
    __builtin_memcpy(&trigger->signal, record, sizeof(*record));
    trigger->signal.disposition = disposition;
    if (process)
        copy_sender(process, &trigger->signal);
    bpf_ringbuf_submit(trigger, 0);
    return 0;
}

/* Whether a rule about signals that do not kill may be about that task. */
static __always_inline int is_asked_for(struct task_struct *task)
{
    __u32 generation = *(volatile __u32 *)&rules_generation;
    return (rules_of_task(task, generation) & signal_rules[generation & 1]) != 0;
}

/* By a process, which is the one that runs: what the kernel generates may come in an interrupt, where anybody runs
 * (include/uapi/asm-generic/siginfo.h).  As has_sender() of capture/render. */
static __always_inline int was_sent(int number, __s32 code)
{
    return code == 0 /* SI_USER */ || code == -1 /* SI_QUEUE */ || code == -6 /* SI_TKILL */ ||
           (number == SIGCHLD_NUMBER && code > 0 && code != 0x80 /* SI_KERNEL */);
}

SEC("tp_btf/signal_generate")
int BPF_PROG(signal_sent, int number, struct kernel_siginfo *info, struct task_struct *target, int group, int result)
{
    __u32 tid = target->pid;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry || *entry == (SLOT_IGNORED | (watch_epoch & SLOT_EPOCH)))
        return 0;
    /* a thread that has slept since before the daemon started has no entry yet */
    struct process_entry *process = ensure_process(target, 0);
    if (!process)
        return 0;
    struct task_struct *sender = bpf_get_current_task_btf();
    __u64 index;
    struct signal_record *record = begin_signal(process, &index);
    record->number = number;
    record->target_tid = tid;
    copy_siginfo(record, info);
    record->sender_tgid = sender->tgid;
    record->sender_tid = sender->pid;
    record->sender_start_boot_ns = BPF_CORE_READ(sender, group_leader, start_boottime);
    record->sender_uid = BPF_CORE_READ(sender, cred, uid.val);
    copy_comm(record->sender_comm, leader_of(sender));
    record->phase = SIGNAL_GENERATED;
    record->group = group != 0;
    record->result = result;
    record->disposition = DISPOSITION_UNKNOWN;
    record->seq = index + 1;
    tally_named(process, was_sent(number, record->code) ? record->sender_comm : 0, TALLY_SIGNAL, tid,
                CODE_AND_VALUE(number, record->code));
    if (number == SIGKILL_NUMBER && (unsigned long)info == 1 /* SEND_SIG_PRIV */)
        process->kernel_kill_ns = record->t_ns;
    if (result == SIGNAL_RESULT_IGNORED && number > 0 && number <= 64 && (handled_signals & BIT(number)))
        report_signal(target, record, DISPOSITION_IGNORED, 0);
    return 0;
}

/* What the kernel will do with a signal that is being delivered; number: becomes what
 * really kills, where that arrives as SIGKILL. */
static __always_inline __u32 disposition_of(struct task_struct *task, struct k_sigaction *action, __s32 *number,
                                            __u32 *group_exit_code)
{
    __u32 flags = BPF_CORE_READ(task, signal, flags);
    *group_exit_code = 0;
    if (*number == SIGKILL_NUMBER) {
        __u32 code = BPF_CORE_READ(task, signal, group_exit_code);
        if (!(flags & SIGNAL_GROUP_EXIT_FLAG) || !(code & 0x7f))
            return DISPOSITION_UNKNOWN; /* exit_group, or exec ending its siblings: not a death by signal */
        *number = code & 0x7f;
        *group_exit_code = code;
        return DISPOSITION_FATAL;
    }
    unsigned long handler = (unsigned long)BPF_CORE_READ(action, sa.sa_handler);
    if (handler == 1)
        return DISPOSITION_IGNORED;
    if (handler)
        return DISPOSITION_HANDLED;
    __u64 bit = BIT(*number & 63);
    if (*number < 32 && (bit & DEFAULT_IGNORED))
        return DISPOSITION_IGNORED;
    if ((flags & SIGNAL_UNKILLABLE_FLAG) && *number != SIGSTOP_NUMBER) /* init of a pid namespace */
        return DISPOSITION_IGNORED;
    if (*number < 32 && (bit & DEFAULT_STOPS))
        return DISPOSITION_STOP;
    return DISPOSITION_FATAL;
}

/* execve(2) that fails when there is nothing to return to dies as the next program, which nobody has decided about: its
 * tracepoint comes at the end of execve().  generation: of the rules. */
static __noinline int dies_as_another(struct task_struct *task, __u32 generation)
{
    struct watch_key key;
    __u64 rules;
    return decision_of(task, &key, &rules, generation) != DECISION_IGNORE;
}

SEC("tp_btf/signal_deliver")
int BPF_PROG(signal_taken, int delivered, struct kernel_siginfo *info, struct k_sigaction *action)
{
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 tid = task->pid, group_exit_code;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry)
        return 0;
    __u32 value = *entry;
    __s32 number = delivered;
    __u32 disposition = disposition_of(task, action, &number, &group_exit_code);
    if (number < 1 || number > 64 || disposition == DISPOSITION_UNKNOWN)
        return 0;
    __u64 bit = BIT(number);
    __u32 dying = disposition == DISPOSITION_FATAL && (fatal_signals & bit);
    if (value == (SLOT_IGNORED | (watch_epoch & SLOT_EPOCH)) &&
        (!dying || !dies_as_another(task, *(volatile __u32 *)&rules_generation)))
        return 0;
    struct process_entry *process = ensure_process(task, dying);
    if (!process) {
        if (dying && tid == task->tgid) /* once a process */
            count_loss(LOSS_DEATH);
        return 0;
    }

    struct signal_record *record = 0;
    if (group_exit_code == 0) { /* its own signal, not the group's end reaching a sibling */
        __u64 index;
        record = begin_signal(process, &index);
        record->number = number;
        record->target_tid = tid;
        copy_siginfo(record, info);
        record->sender_tgid = 0;
        record->sender_tid = 0;
        record->sender_start_boot_ns = 0;
        record->sender_uid = 0;
        record->sender_comm[0] = 0;
        record->phase = SIGNAL_DELIVERED;
        record->group = 0;
        record->result = 0;
        record->disposition = disposition;
        record->seq = index + 1;
    }

    struct capture capture = {
        .ctx = ctx,
        .info = info,
        .number = number,
        .delivered = delivered,
        .disposition = disposition,
        .group_exit_code = group_exit_code,
        .slot = ~0u,
    };
    if (disposition == DISPOSITION_FATAL || (handled_signals & bit))
        capture.share = share_of(task);
    struct thread_slot *thread = 0;
    __u32 slot = value - 1;
    if (slot < slots) {
        thread = bpf_map_lookup_elem(&threads, &slot);
        capture.slot = slot;
    }
    if (disposition == DISPOSITION_HANDLED && thread)
        thread->signal_frames += 1;
    if (disposition != DISPOSITION_FATAL) {
        if (!(handled_signals & bit) || !is_asked_for(task))
            return 0;
        if (record && !admit_capture(capture.share, CAPTURES_A_SECOND)) {
            report_signal(task, record, disposition, process);
            return 0;
        }
        capture.role = ROLE_SIGNALLED;
        capture.event = EVENT_SIGNAL;
        capture_process(task, &capture);
        capture_thread(task, &capture, thread);
        return 0;
    }
    /* the OOM killer sends SIGKILL first and says so afterwards (mm/oom_kill.c, __oom_kill_process) */
    int perhaps_oom = oom_wanted && number == SIGKILL_NUMBER && process->kernel_kill_ns;
    if (!process->death_ns && !(fatal_signals & bit) && !perhaps_oom)
        return 0;
    capture.role = ROLE_SIBLING;
    capture.event = EVENT_DEATH;
    __u64 now = bpf_ktime_get_ns();
    int without = 0; /* mappings, and what is found by them */
    if (__sync_val_compare_and_swap(&process->death_ns, 0, now) == 0) {
        capture.role = ROLE_CRASHED;
        process->uid = BPF_CORE_READ(task, cred, uid.val); /* it may have changed since the exec: workers of servers */
        process->death_signal = number;
        process->death_tid = tid;
        process->death_code = 0;
        process->death_address = 0;
        if (!group_exit_code && (unsigned long)info > 1) {
            process->death_code = BPF_CORE_READ(info, si_code);
            process->death_address = (__u64)BPF_CORE_READ(info, _sifields._sigfault._addr);
        }
        if (capture_process(task, &capture)) {
            process->death_event = 1;
        } else {
            keep_death(task, &capture);
            process->death_event = 2;
        }
        if (holds_much(capture.share, FILLING_FACTOR))
            without = 1;
        else
            capture_maps(task, capture.share);
    }
    if (thread)
        thread->state = SLOT_PINNED;
    if (without) {
        count_loss(LOSS_MAPS);
        count_loss(LOSS_POINTERS);
    } else if (capture.role == ROLE_CRASHED) {
        capture_pointers(task, &capture);
    }
    /* Without its death_event nobody reads what follows: keep_death() has its registers. */
    int unsent = capture.role == ROLE_SIBLING ? holds_much(capture.share, SIBLING_FACTOR) : process->death_event == 2;
    if (unsent)
        count_loss(LOSS_THREAD_EVENT);
    if (!unsent && capture_thread(task, &capture, thread)) {
        if (thread)
            thread->captured = 1;
        __sync_fetch_and_add(&process->threads_sent, 1);
    } else {
        if (thread)
            thread->captured = 2;
        __sync_fetch_and_add(&process->threads_unsent, 1);
    }
    return 0;
}
