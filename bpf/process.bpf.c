// SPDX-License-Identifier: GPL-2.0-only
// Lineage and the ends of threads: who started whom, when, with what; and giving rings
// back.
//
// sched_process_fork runs in the parent before the child can run, exec in the new
// program's context after the old one is gone, exit in the dying thread after its last
// syscall: so an entry exists before its process does anything, and a ring is given
// back only when nothing can write to it any more.
#include "bpf/calls.bpf.h"
#include "bpf/tallies.bpf.h"
#include "bpf/watch.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline struct lineage_record *add_lineage(struct process_entry *process, __u32 kind, __u32 tid)
{
    __u64 index = __sync_fetch_and_add(&process->lineage, 1);
    struct lineage_record *line = &process->line[index & (LINEAGE_RECORDS - 1)];
    line->t_ns = bpf_ktime_get_ns();
    line->kind = kind;
    line->tid = tid;
    line->status = 0;
    return line;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
    __u32 parent_tgid = parent->tgid;
    forget_caller(child);
    if (child->pid != child->tgid) /* a thread: known from its own first call */
        return 0;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &parent_tgid);
    if (!process)
        return 0;
    struct lineage_record *line = add_lineage(process, LINEAGE_CHILD, child->pid);
    copy_comm(line->comm, child);
    tally_named(process, line->comm, TALLY_CHILD, parent->pid, 0);
    struct process_entry *born = ensure_process(child, 0);
    if (born) {
        note_parent(born, parent);
        struct lineage_record *birth = add_lineage(born, LINEAGE_FORK, child->pid);
        copy_comm(birth->comm, child);
    }
    return 0;
}

static __noinline int tally_exec(const struct process_entry *process, __u32 tid, __u32 length)
{
    struct tally_ask ask;
    begin_process_ask(&ask, process, TALLY_EXEC, tid);
    ask.length = length;
    ask.name_at = (__u64)process->exec_name;
    ask.hash = hash_name(process->exec_name, length, EXE_NAME_LEN / 8);
    return tally_in(&ask, TALLY_REGION_NAMED);
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task, pid_t old_pid, struct linux_binprm *bprm)
{
    __u32 tid = task->pid, tgid = task->tgid, old = old_pid, epoch = *(volatile __u32 *)&watch_epoch & SLOT_EPOCH;
    __u32 generation = *(volatile __u32 *)&rules_generation;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry)
        return 0;
    forget_caller(task);
    if (old != tid) { /* not the leader did it: it has taken the leader's tid (fs/exec.c, de_thread) */
        __u32 *moved = bpf_map_lookup_elem(&slot_of, &old);
        if (moved) {
            *entry = *moved;
            *moved = 0;
        }
    }
    __u32 slot = *entry - 1;
    if (slot < slots) { /* another program: decide again, at its next call */
        end_calls(slot);
        struct thread_slot *thread = bpf_map_lookup_elem(&threads, &slot);
        if (thread) {
            thread->epoch = 0;
            thread->rules_generation = 0;
            thread->signal_frames = 0;
            thread->tid = tid;
            thread->thread_start_boot_ns = BPF_CORE_READ(task, start_boottime);
            thread->process_start_boot_ns = BPF_CORE_READ(task, group_leader, start_boottime);
            copy_comm(thread->comm, task);
        }
    } else {
        *entry = 0;
    }
    struct watch_key key;
    __u64 rules;
    __u32 decision = decision_of(task, &key, &rules, generation);
    if (decision == DECISION_IGNORE) {
        if (slot >= slots)
            *entry = SLOT_IGNORED | epoch;
        forget_process(tgid);
        return 0;
    }
    struct process_entry *process = ensure_process(task, 0);
    if (!process)
        return 0;
    note_key(process, &key, generation); /* else that of the program before stays until the next call */
    process->asked_epoch = 0;
    process->told_epoch = 0;
    process->permit_epoch = 0;
    process->execs += 1;
    process->exec_ns = process->identity_ns = bpf_ktime_get_ns();
    process->memory_ended = process->memory_ended_ns = 0;
    process->break_end = 0;
    process->memory_level = 0;
    process->uid = BPF_CORE_READ(task, cred, uid.val);
    long length = bpf_probe_read_kernel_str(process->exec_name, EXE_NAME_LEN, BPF_CORE_READ(bprm, filename));
    struct lineage_record *line = add_lineage(process, LINEAGE_EXEC, old);
    copy_comm(line->comm, task);
    tally_exec(process, old, length > 0 ? length - 1 : 0); /* without the NUL */
    return 0;
}

/* Processes whose end has been told to their parents.  do_exit() counts a thread off signal->live some time before its
 * tracepoint, so threads that exit together may all find 0 there: the first is the process's end, and the map decides
 * which that is. */
struct ended_process {
    __u64 start_boot_ns;
    __u64 tgid;
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, struct ended_process);
    __type(value, __u8);
} ended_processes SEC(".maps");

static __always_inline void note_child_exit(struct task_struct *task)
{
    __u32 parent = BPF_CORE_READ(task, real_parent, tgid);
    struct process_entry *process = bpf_map_lookup_elem(&processes, &parent);
    if (!process)
        return;
    struct ended_process ended = {.start_boot_ns = BPF_CORE_READ(task, group_leader, start_boottime),
                                  .tgid = task->tgid};
    __u8 told = 1;
    if (bpf_map_update_elem(&ended_processes, &ended, &told, BPF_NOEXIST))
        return;
    struct lineage_record *line = add_lineage(process, LINEAGE_CHILD_EXIT, task->tgid);
    __s32 group = BPF_CORE_READ(task, signal, group_exit_code);
    line->status = group ? group : task->exit_code;
    copy_comm(line->comm, leader_of(task));
    tally_named(process, line->comm, TALLY_CHILD_EXIT, task->tgid, CODE_AND_VALUE(line->status, 0));
}

#define SIGNAL_GROUP_EXIT_FLAG 0x04 /* include/linux/sched/signal.h: the whole process is ending */

/* The records of a thread that ends before its process go with it: said how many, and until when. */
static __always_inline void note_ended(struct task_struct *task, __u32 tgid, struct thread_slot *thread)
{
    if (BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT_FLAG)
        return;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (!process)
        return;
    __sync_fetch_and_add(&process->calls_ended, thread->syscalls);
    __sync_fetch_and_add(&process->threads_ended, 1);
    copy_comm(thread->comm, task); /* it may have given itself another name since */
    tally_named(process, thread->comm, TALLY_THREAD, thread->tid, 0);
    if (!thread->memory_events)
        return;
    process->memory_ended_ns = thread->exit_ns;
    __sync_fetch_and_add(&process->memory_ended, 1);
}

/* For tracepoints that are hit when the memory is gone: what was decided while the process lived, or by what it was
 * decided then. */
static __noinline int remember_ended(struct task_struct *task, struct thread_slot *thread, __u32 slot)
{
    struct ended_thread ended = {.generation = thread->generation, .slot = slot};
    __u32 tgid = BPF_CORE_READ(task, tgid), generation = *(volatile __u32 *)&rules_generation;
    __u64 address = (__u64)task;
    ended.rules = thread->rules;
    ended.rules_generation = thread->rules_generation;
    ended.start_boot_ns = BPF_CORE_READ(task, start_boottime);
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (process && process->start_boot_ns == thread->process_start_boot_ns) {
        __builtin_memcpy(&ended.key, &process->key, sizeof(ended.key));
        if (ended.rules_generation != generation) { /* rules have changed since its last call */
            struct watch_decision *decision = bpf_map_lookup_elem(&watch_decisions, &process->key);
            if (decision && decision->generation == generation) {
                ended.rules = decision->rules;
                ended.rules_generation = generation;
            }
        }
    }
    bpf_map_update_elem(&ended_threads, &address, &ended, BPF_ANY);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
    __u32 tid = task->pid, tgid = task->tgid;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (entry) {
        __u32 slot = *entry - 1;
        *entry = 0;
        forget_caller(task);
        if (slot < slots) {
            end_calls(slot);
            struct thread_slot *thread = bpf_map_lookup_elem(&threads, &slot);
            if (thread) {
                thread->exit_ns = bpf_ktime_get_ns();
                note_ended(task, tgid, thread);
                if (tracepoint_rules[rules_generation & 1])
                    remember_ended(task, thread, slot);
                if (__sync_val_compare_and_swap(&thread->state, SLOT_PINNED, SLOT_EXITED) != SLOT_PINNED) {
                    thread->state = SLOT_FREE;
                    free_slot(thread, slot);
                }
            }
        }
    }
    /* do_exit() has taken this thread off signal->live: at 0 it was the last one */
    if (BPF_CORE_READ(task, signal, live.counter) != 0)
        return 0;
    note_child_exit(task);
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (!process || process->start_boot_ns != BPF_CORE_READ(task, group_leader, start_boottime))
        return 0;
    if (!process->death_ns) {
        drop_process(process, tgid);
        return 0;
    }
    if (__sync_val_compare_and_swap(&process->gone_ns, 0, bpf_ktime_get_ns()))
        return 0;
    struct event_header *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
    if (!event) {
        count_loss(LOSS_GONE_EVENT);
        return 0;
    }
    fill_header(event, EVENT_GONE, task);
    bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
    return 0;
}

/* What rules look at has changed.  A thread that is alone in its process decides again by itself, at its next call;
 * else everybody does, which costs each thread a hash look-up.  A user who makes that happen often gets it once a
 * second more: by then the daemon moves the generation of decisions on. */
static __noinline int decide_once_more(struct task_struct *task)
{
    __u32 tid = BPF_CORE_READ(task, pid), tgid = BPF_CORE_READ(task, tgid);
    if (task != bpf_get_current_task_btf() || BPF_CORE_READ(task, signal, nr_threads) != 1) {
        struct user_share *share = share_at(share_of(task));
        begin_second(share);
        if (__sync_fetch_and_add(&share->renames, 1) < RENAMES_A_SECOND)
            __sync_fetch_and_add(&watch_epoch, 1);
        else
            epoch_is_due = 1;
        return 0;
    }
    struct process_entry *process = decide_at_next_call(task, tid, tgid);
    if (process)
        process->asked_epoch = process->told_epoch = process->permit_epoch = 0;
    return 0;
}

/* An exec's own renaming is left to process_exec. */
SEC("tp_btf/task_rename")
int BPF_PROG(process_rename, struct task_struct *task, const char *comm)
{
    if (look_at_comm[rules_generation & 1] && task->pid == task->tgid &&
        !BPF_CORE_READ_BITFIELD_PROBED(task, in_execve))
        decide_once_more(task);
    return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(process_moved, struct cgroup *destination, const char *path, struct task_struct *task, bool threadgroup)
{
    if (!look_at_cgroup[rules_generation & 1])
        return 0;
    __u32 tgid = task->tgid;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (process)
        process->identity_ns = bpf_ktime_get_ns();
    decide_once_more(task);
    return 0;
}
