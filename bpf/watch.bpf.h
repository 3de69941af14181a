/* SPDX-License-Identifier: GPL-2.0-only
 * Which threads are recorded.  A thread decides for itself, in its own context, the
 * first time it is seen and whenever the generation of decisions (watch_epoch) has
 * moved on; so nobody ever takes a ring away from under a thread that writes to it.
 * The decision comes from a cache keyed by what rules look at; where the cache does not
 * know, the daemon is asked once and the thread is recorded until it is ruled out. */
#pragma once

#include "bpf/callers.bpf.h"
#include "bpf/modules.bpf.h"
#include "bpf/shares.bpf.h"

/* What rules of that generation tell processes apart by; generation 0: all that any rules can. */
static __always_inline void make_watch_key(struct task_struct *task, struct watch_key *key, __u32 generation)
{
    __builtin_memset(key, 0, sizeof(*key));
    struct file *file = BPF_CORE_READ(task, mm, exe_file);
    if (file) {
        key->exe_inode = BPF_CORE_READ(file, f_inode, i_ino);
        key->exe_device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
        key->exe_dentry = (__u64)BPF_CORE_READ(file, f_path.dentry);
        key->exe_mount = (__u64)BPF_CORE_READ(file, f_path.mnt);
    }
    key->uid = BPF_CORE_READ(task, cred, euid.val);
    if (!generation || look_at_cgroup[generation & 1]) {
        key->cgroup_id = cgroup_id_of(task);
        key->cgroup_set = (__u64)BPF_CORE_READ(task, cgroups);
    }
    if (!generation || look_at_comm[generation & 1])
        copy_comm(key->comm, leader_of(task));
}

static __always_inline void note_parent(struct process_entry *process, struct task_struct *parent)
{
    process->parent_tgid = BPF_CORE_READ(parent, tgid);
    process->parent_start_boot_ns = BPF_CORE_READ(parent, group_leader, start_boottime);
    copy_comm(process->parent_comm, leader_of(parent));
}

/* The map has no count of its own that a program may read. */
static __always_inline void drop_process(struct process_entry *process, __u32 tgid)
{
    __u32 share = process->share;
    if (bpf_map_delete_elem(&processes, &tgid))
        return;
    __sync_fetch_and_sub(&process_entries, 1);
    __sync_fetch_and_sub(&share_at(share)->processes, 1);
}

/* Whether there is an entry for another process of that user.  Who dies may have one of the reserve. */
static __always_inline int may_have_entry(struct user_share *share, __u32 dying)
{
    __u32 most = processes_max + (dying ? DYING_RESERVE : 0), entries = process_entries;
    if (entries < most && share->processes < HELD_FACTOR * (most - entries))
        return 1;
    if (entries < most)
        __sync_fetch_and_add(&share->refused_processes, 1);
    return 0;
}

static __always_inline struct process_draft *take_draft(void)
{
    for (__u32 i = 0; i < PROCESS_DRAFTS; i++) {
        __u32 index = i;
        struct process_draft *draft = bpf_map_lookup_elem(&process_drafts, &index);
        if (draft && !__sync_lock_test_and_set(&draft->taken, 1))
            return draft;
    }
    count_loss(LOSS_SCRATCH);
    return 0;
}

/* The process entry of a task, made where it does not exist.  An entry of an earlier
 * process with the same tgid is replaced.  For one that is dying the reserve is there.
 * It is put into the map whole: another CPU may drop it at any time, and then what is
 * written into it may be written into the entry of whoever got the memory. */
static __noinline struct process_entry *ensure_process(struct task_struct *task, __u32 dying)
{
    __u32 tgid = BPF_CORE_READ(task, tgid);
    __u64 start = BPF_CORE_READ(task, group_leader, start_boottime);
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (process) {
        if (process->start_boot_ns == start)
            return process;
        if (process->death_ns) /* its bundle has not been closed: its lineage is lost to it */
            count_loss(LOSS_PROCESS_ENTRY);
        drop_process(process, tgid);
    }
    __u32 share = share_of(task);
    if (!may_have_entry(share_at(share), dying)) {
        count_loss(LOSS_PROCESS_ENTRY);
        return 0;
    }
    struct process_draft *draft = take_draft();
    if (!draft)
        return 0;
    struct process_entry *made = &draft->entry;
    made->tgid = tgid;
    made->start_boot_ns = start;
    made->first_ns = made->identity_ns = bpf_ktime_get_ns();
    made->uid = BPF_CORE_READ(task, cred, uid.val);
    made->share = share;
    made->since_birth = recording_since_boot_ns && start >= recording_since_boot_ns;
    made->fork_ns = made->since_birth ? BPF_CORE_READ(task, group_leader, start_time) : 0;
    note_parent(made, BPF_CORE_READ(task, group_leader, real_parent));
    if (!bpf_map_update_elem(&processes, &tgid, made, BPF_NOEXIST)) { /* another thread may have been faster */
        __sync_fetch_and_add(&process_entries, 1);
        __sync_fetch_and_add(&share_at(share)->processes, 1);
    }
    *(volatile __u32 *)&draft->taken = 0;
    process = bpf_map_lookup_elem(&processes, &tgid);
    if (!process || process->start_boot_ns != start) {
        count_loss(LOSS_PROCESS_ENTRY);
        return 0;
    }
    return process;
}

/* Before the next two, and not within them: the frames of a call chain share 512 bytes (MAX_BPF_STACK). */
static __noinline int may_ask_daemon(struct task_struct *task, __u32 bytes)
{
    if (may_ask(task, bytes))
        return 1;
    count_loss(LOSS_WATCH_EVENT);
    return 0;
}

static __noinline int ask_daemon(struct task_struct *task, struct watch_key *key, __u32 generation)
{
    struct watch_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
    if (!event) {
        count_loss(LOSS_WATCH_EVENT);
        return 0;
    }
    __u32 cut;
    fill_header(&event->h, EVENT_WATCH, task);
    __builtin_memcpy(&event->key, key, sizeof(*key));
    copy_comm(event->comm, leader_of(task));
    event->exec_name[0] = 0;
    event->uid = BPF_CORE_READ(task, cred, euid.val);
    event->cgroup_parts = cgroup_names(task, event->cgroup, &cut);
    exe_path(task, &event->exe);
    event->generation = generation;
    event->pad = 0;
    bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
    return 1;
}

/* kind: EVENT_STARTED, for probes are put into the process by the daemon, which has to know of it; or EVENT_PERMIT.
 * rules: which it is about. */
static __noinline int tell_daemon(struct task_struct *task, __u32 kind, __u64 rules, __u32 generation)
{
    struct trigger_head *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
    if (!event) {
        count_loss(LOSS_WATCH_EVENT);
        return 0;
    }
    fill_header(&event->h, kind, task);
    event->kind = 0;
    event->captured = 0;
    event->rules = rules;
    event->dumped = 0;
    event->dump_bit = 0;
    event->generation = generation;
    make_watch_key(task, &event->key, kind == EVENT_PERMIT ? 0 : generation);
    copy_comm(event->comm, leader_of(task));
    bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
    return 1;
}

/* rules are set whenever the decision is not to ignore: where the daemon has yet to answer,
 * to all, for it checks again what it gets.  key is made where there is need of one. */
static __always_inline __u32 decision_of(struct task_struct *task, struct watch_key *key, __u64 *rules,
                                         __u32 generation)
{
    *rules = rules_of_all[generation & 1];
    if (BPF_CORE_READ(task, tgid) == own_tgid)
        return DECISION_IGNORE;
    if (watch_all[generation & 1] && !ask_rules[generation & 1])
        return DECISION_WATCH;
    make_watch_key(task, key, generation);
    struct watch_decision *decision = bpf_map_lookup_elem(&watch_decisions, key);
    if (!decision || decision->generation != generation) {
        *rules = ~0ULL;
        return 0;
    }
    *rules = decision->rules;
    return decision->decision;
}

/* Whether the permit is this very process's, for all that can be told of it now.  Whose it is is read last: see
 * dump.bpf.h. */
static __noinline int permit_is_of(struct permit *permit, struct task_struct *task, __u32 generation)
{
    struct watch_key key;
    __u32 tgid = BPF_CORE_READ(task, tgid);
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (!permit || !process)
        return 0;
    make_watch_key(task, &key, 0);
    const __u64 *now = (const __u64 *)&key, *then = (const __u64 *)&permit->key;
    for (__u32 i = 0; i < sizeof(key) / sizeof(__u64); i++)
        if (now[i] != then[i])
            return 0;
    __u64 start = BPF_CORE_READ(task, group_leader, start_boottime);
    return process->start_boot_ns == start && permit->identity_ns == process->identity_ns &&
           permit->generation == generation && permit->round == permit_round && permit->tgid == tgid &&
           permit->start_boot_ns == start;
}

/* Once in a generation of decisions, unless what the daemon has answered still holds. */
static __noinline int ask_for_permit(struct task_struct *task, struct process_entry *process, __u64 rules,
                                     __u32 generation, __u32 epoch)
{
    __u32 tgid = BPF_CORE_READ(task, tgid);
    if (!process || process->permit_epoch == epoch)
        return 0;
    struct permit *permit = bpf_map_lookup_elem(&permits, &tgid);
    if ((permit && permit_is_of(permit, task, generation)) ||
        (may_ask_daemon(task, sizeof(struct trigger_head)) && tell_daemon(task, EVENT_PERMIT, rules, generation)))
        process->permit_epoch = epoch;
    return 0;
}

/* A process that is not watched needs no entry. */
static __always_inline void forget_process(__u32 tgid)
{
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (process && !process->death_ns)
        drop_process(process, tgid);
}

static __always_inline void free_slot(struct thread_slot *thread, __u32 slot)
{
    __sync_fetch_and_sub(&share_at(thread->share)->slots, 1);
    if (bpf_map_push_elem(&free_slots, &slot, 0))
        count_loss(LOSS_FREE_SLOT);
    else
        __sync_fetch_and_add(&slots_free, 1);
}

static __noinline struct thread_slot *take_slot(struct task_struct *task, __u32 *entry)
{
    __u32 slot, share = share_of(task);
    if (share_at(share)->slots >= HELD_FACTOR * slots_free) {
        __sync_fetch_and_add(&share_at(share)->refused_slots, 1);
        return 0;
    }
    if (!slots_free || bpf_map_pop_elem(&free_slots, &slot))
        return 0;
    __sync_fetch_and_add(&slots_free, -1);
    struct thread_slot *thread = bpf_map_lookup_elem(&threads, &slot);
    if (!thread)
        return 0;
    thread->syscalls = 0;
    thread->tid = BPF_CORE_READ(task, pid);
    thread->tgid = BPF_CORE_READ(task, tgid);
    thread->task = (__u64)task;
    thread->epoch = 0;
    thread->rules_generation = 0;
    thread->in_call = 0;
    thread->after = 0;
    thread->generation += 1;
    thread->thread_start_boot_ns = BPF_CORE_READ(task, start_boottime);
    thread->process_start_boot_ns = BPF_CORE_READ(task, group_leader, start_boottime);
    thread->first_ns = bpf_ktime_get_ns();
    thread->opens = 0;
    thread->memory_events = 0;
    thread->exit_ns = 0;
    thread->path_of = 0;
    thread->paths_cut = 0;
    thread->paths_faulted = 0;
    thread->captured = 0;
    thread->off_ns = 0;
    thread->blocked_ns = 0;
    thread->judged = 0;
    thread->signal_frames = 0;
    thread->unkept = 0;
    thread->requests = thread->requests_unkept = 0;
    thread->refused = 0;
    thread->granted = 0;
    thread->memory_level = thread->descriptor_level = 0;
    thread->address_of = 0;
    thread->share = share;
    __sync_fetch_and_add(&share_at(share)->slots, 1);
    thread->since_birth = recording_since_boot_ns && thread->thread_start_boot_ns >= recording_since_boot_ns;
    copy_comm(thread->comm, task);
    thread->state = SLOT_LIVE;
    *entry = slot + 1;
    return thread;
}

/* Who has become another user is charged as that one: a service that root started would be root's for ever. */
static __noinline int charge_slot(struct task_struct *task, struct thread_slot *thread)
{
    __u32 share = share_of(task), before = thread->share;
    if (share == before)
        return 0;
    thread->share = share;
    __sync_fetch_and_add(&share_at(share)->slots, 1);
    __sync_fetch_and_sub(&share_at(before)->slots, 1);
    return 0;
}

/* What a call of a thread without a slot leaves: its number in the process's account. */
static __always_inline void count_unrecorded(struct task_struct *task)
{
    __u32 tgid = BPF_CORE_READ(task, tgid);
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (process)
        __sync_fetch_and_add(&process->syscalls_unrecorded, 1);
}

/* key: as decision_of() has made it. */
static __always_inline void note_key(struct process_entry *process, const struct watch_key *key, __u32 generation)
{
    if (!watch_all[generation & 1] || ask_rules[generation & 1])
        __builtin_memcpy(&process->key, key, sizeof(*key));
    else
        __builtin_memset(&process->key, 0, sizeof(process->key));
}

static __always_inline __u32 is_untimed(struct thread_slot *thread)
{
    struct untimed_key key = {.start_boot_ns = thread->process_start_boot_ns, .tgid = thread->tgid};
    return bpf_map_lookup_elem(&untimed, &key) != 0;
}

/* Decides (again) whether the current thread is recorded, and returns its slot; 0: it is not.  entry: its place in
 * slot_of, which may change. */
static __noinline struct thread_slot *decide_slot(struct task_struct *task, __u32 *entry)
{
    /* the epoch first: it moves on after the generation, so with a new one come the new rules */
    __u32 value = *entry, epoch = *(volatile __u32 *)&watch_epoch & SLOT_EPOCH;
    __u32 generation = *(volatile __u32 *)&rules_generation;
    struct thread_slot *thread = 0;
    struct watch_key key;

    __u32 slot = value - 1;
    if (slot < slots)
        thread = bpf_map_lookup_elem(&threads, &slot);
    /* also one whose user has her share: with so little left she is asked about no sooner than there is more */
    if (value == (SLOT_REFUSED | epoch) && slots_free <= slots / (HELD_FACTOR + 1)) {
        count_unrecorded(task);
        return 0;
    }
    forget_caller(task);
    __u64 rules;
    __u32 decision = decision_of(task, &key, &rules, generation);
    if (decision == DECISION_IGNORE) {
        *entry = SLOT_IGNORED | epoch;
        if (thread) {
            thread->state = SLOT_FREE;
            free_slot(thread, slot);
        }
        forget_process(BPF_CORE_READ(task, tgid));
        return 0;
    }
    struct process_entry *process = ensure_process(task, 0);
    if (!thread) {
        thread = take_slot(task, entry);
        if (!thread) {
            if (value != (SLOT_REFUSED | epoch)) {
                count_loss(LOSS_SLOT);
                if (process)
                    __sync_fetch_and_add(&process->threads_unrecorded, 1);
            }
            *entry = SLOT_REFUSED | epoch;
            count_unrecorded(task);
            return 0;
        }
    } else {
        charge_slot(task, thread);
    }
    /* whoever looks between the two takes them for undecided, not for another generation's */
    *(volatile __u32 *)&thread->rules_generation = 0;
    *(volatile __u64 *)&thread->rules = rules;
    *(volatile __u32 *)&thread->rules_generation = generation;
    thread->untimed = is_untimed(thread);
    thread->keeps = rules & payload_rules[generation & 1] ? ~0 : ~CLASS_PAYLOAD;
    if (process)
        note_key(process, &key, generation);
    if (decision == DECISION_WATCH) {
        thread->epoch = epoch;
        tell_of_module(task, BPF_CORE_READ(task, mm, exe_file), 0);
        if ((rules & told_rules[generation & 1]) && process && process->told_epoch != epoch &&
            may_ask_daemon(task, sizeof(struct trigger_head)) && tell_daemon(task, EVENT_STARTED, rules, generation))
            process->told_epoch = epoch;
        if (rules & dump_rules[generation & 1])
            ask_for_permit(task, process, rules, generation, epoch);
        return thread;
    }
    if (process && process->asked_epoch != epoch && may_ask_daemon(task, sizeof(struct watch_event)) &&
        ask_daemon(task, &key, generation))
        process->asked_epoch = epoch;
    return thread;
}

/* What rules know this thread by has changed: its next call decides about it again.  Its process's entry, or 0. */
static __always_inline struct process_entry *decide_at_next_call(struct task_struct *task, __u32 tid, __u32 tgid)
{
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry)
        return 0;
    __u32 slot = *entry - 1;
    struct thread_slot *thread = 0;
    if (slot < slots)
        thread = bpf_map_lookup_elem(&threads, &slot);
    if (thread) {
        thread->epoch = 0;
        thread->rules_generation = 0;
    } else {
        *entry = 0;
    }
    forget_caller(task);
    return bpf_map_lookup_elem(&processes, &tgid);
}
