/* SPDX-License-Identifier: GPL-2.0-only
 * The one place where the kernel side sends a signal.
 *
 * bpf_send_signal() reaches the current process only, so the subject is given.  All else is proved here and now,
 * or nothing is sent and the daemon, which gets the trigger either way, does what it can prove:
 * - the rule: the condition with this bit in the generation in force, of a thread that has decided under it since;
 * - the process: a permit that the daemon wrote for this very one, after it had looked at it ([safety] never, the
 * rule's match), and nothing that rules know it by has changed since: its executable, cgroup, user and name are
 * compared (whole, though the watch cache may look at less), and identity_ns tells of a change and back again;
 * - the signal: at its default action, not blocked here nor waiting already, of a process that it kills and that
 * nobody traces, who would be given it; that none of its threads waits for it (sigwait) the daemon has looked at for
 * the permit;
 * - the core: dumpable, RLIMIT_CORE with which the daemon found one would come, room for it, and what the daemon has
 * seen of core_pattern and its listener within the last seconds (dump_until_ns);
 * - the hour: one allowance for all rules and both sides, taken in one step.  */
#pragma once

#include "bpf/watch.bpf.h"

#define CORE_LIMIT 4                /* RLIMIT_CORE, include/uapi/asm-generic/resource.h */
#define DUMPABLE_BY_USER 1          /* SUID_DUMP_USER, include/linux/sched/coredump.h */
#define SMALLEST_CORE 4096          /* ELF_EXEC_PAGESIZE: with as much no handler and no file is refused one */
#define PF_KERNEL_THREAD 0x00200000 /* PF_KTHREAD, include/linux/sched.h */
#define GROUP_EXIT_FLAG 0x04        /* SIGNAL_GROUP_EXIT, include/linux/sched/signal.h: it is ending already */
#define UNKILLABLE_FLAG 0x40        /* SIGNAL_UNKILLABLE: init of a pid namespace, which default actions do not reach */

/* struct k_sigaction of that signal; its handler: 0 is SIG_DFL. */
static __always_inline unsigned long handler_of(struct task_struct *task, __u32 number)
{
    unsigned long handler = ~0ul;
    void *action = (void *)BPF_CORE_READ(task, sighand) + bpf_core_field_offset(struct sighand_struct, action) +
                   (number - 1) * bpf_core_type_size(struct k_sigaction);
    if (bpf_core_read(&handler, sizeof(handler), &((struct k_sigaction *)action)->sa.sa_handler))
        return ~0ul;
    return handler;
}

static __always_inline int would_dump(struct task_struct *task, __u32 number, __u64 core_limit)
{
    struct mm_struct *mm = BPF_CORE_READ(task, mm);
    if (!mm || BPF_CORE_READ(task, tgid) <= 1 || (BPF_CORE_READ(task, flags) & PF_KERNEL_THREAD) ||
        BPF_CORE_READ(task, ptrace))
        return 0;
    if (BPF_CORE_READ(task, signal, flags) & (GROUP_EXIT_FLAG | UNKILLABLE_FLAG))
        return 0;
    /* one that waits to be taken ends the process already: a second would cost another of the hour */
    __u64 held = BPF_CORE_READ(task, blocked.sig[0]) | BPF_CORE_READ(task, pending.signal.sig[0]) |
                 BPF_CORE_READ(task, signal, shared_pending.signal.sig[0]);
    if ((held >> (number - 1)) & 1)
        return 0;
    if (handler_of(task, number))
        return 0;
    if (dumpable_of(mm) != DUMPABLE_BY_USER)
        return 0;
    /* Less is not always worse: with a handler 1 means no core, and 0 does not. */
    __u64 limit = BPF_CORE_READ(task, signal, rlim[CORE_LIMIT].rlim_cur);
    if (limit != core_limit && limit < SMALLEST_CORE)
        return 0;
    return rss_pages(mm) * STACK_PAGE <= dump_space_bytes;
}

/* One of the hour's, or none. */
static __always_inline int take_allowance(void)
{
    if (dump_allowance <= 0)
        return 0;
    if (__sync_fetch_and_add(&dump_allowance, -1) > 0)
        return 1;
    __sync_fetch_and_add(&dump_allowance, 1);
    return 0;
}

/* Makes the current process dump core by the condition with that bit; answers the signal sent, 0 for none. */
static __noinline __u32 dump_here(struct task_struct *task, struct thread_slot *thread, __u32 bit, __u32 generation)
{
    struct condition_settings *settings = condition_of(generation, bit);
    if (!settings || !thread || settings->generation != generation)
        return 0;
    __u32 number = settings->dump_signal, tgid = BPF_CORE_READ(task, tgid);
    if (number < 1 || number > 64 || !((bits_of(thread, generation) >> (bit & (RULE_BITS - 1))) & 1))
        return 0;
    struct permit *permit = bpf_map_lookup_elem(&permits, &tgid);
    if (!permit)
        return 0;
    /* The daemon may write another's permit where this one stood: what it allows is read first, whose it is behind it.
     */
    __u64 rules = *(volatile __u64 *)&permit->rules, core_limit = *(volatile __u64 *)&permit->core_limit;
    barrier();
    if (!((rules >> (bit & (RULE_BITS - 1))) & 1) || !permit_is_of(permit, task, generation))
        return 0;
    if (bpf_ktime_get_ns() >= dump_until_ns || !would_dump(task, number, core_limit) || !take_allowance())
        return 0;
    int decided = *(volatile __u32 *)&rules_generation == generation &&
                  thread->epoch == (*(volatile __u32 *)&watch_epoch & SLOT_EPOCH);
    if (!decided || bpf_send_signal(number)) {
        __sync_fetch_and_add(&dump_allowance, 1);
        return 0;
    }
    return number;
}
