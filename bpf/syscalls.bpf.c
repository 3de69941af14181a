// SPDX-License-Identifier: GPL-2.0-only
// The recorder: every syscall of a watched thread into that thread's own segments.
//
// Why raw_syscalls as tp_btf: it is the only pair that fires for every call on every
// kernel, and tp_btf costs half of what the classic tracepoint does.  At entry the
// record is written whole but for result and duration, so a call still in flight is
// visible as such; once it is over it is packed (bpf/segments.bpf.h).  Nothing is shared
// with other threads, no lock, no atomic, but where a segment is full.
//
// A call whose entry was not seen is recorded at its return, without a duration: the
// registers still hold number and arguments there.  Such are the calls a thread was in
// when recording began, and all of them where durations are not measured: then
// record_enter is not attached, and half the price is not paid.
#include "bpf/addresses.bpf.h"
#include "bpf/call_facts.bpf.h"
#include "bpf/paths.bpf.h"
#include "bpf/payload.bpf.h"
#include "bpf/segments.bpf.h"
#include "bpf/watch.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* Since 6.2; no call: the verifier puts a move in its place (commit a35b9af4ec2c). */
extern void *bpf_rdonly_cast(const void *object, __u32 btf_id) __ksym __weak;

#define NR_RT_SIGRETURN 15       /* arch/x86/entry/syscalls/syscall_64.tbl */
#define NR_RT_SIGRETURN_IA32 173 /* syscall_32.tbl */
/* Calls that give the caller another effective user. */
#define NR_SETUID 105
#define NR_SETREUID 113
#define NR_SETRESUID 117
#define NR_SETUID16_IA32 23
#define NR_SETREUID16_IA32 70
#define NR_SETRESUID16_IA32 164
#define NR_SETREUID_IA32 203
#define NR_SETRESUID_IA32 208
#define NR_SETUID_IA32 213

static __always_inline __u32 class_memory(__u32 class)
{
    return (class >> CLASS_MEMORY_SHIFT) & CLASS_MEMORY_MASK;
}

/* Remembers the path of the call. */
__weak int tally_path(struct thread_slot *thread, __u32 slot, struct syscall_record *record)
{
    struct tally_ask ask;
    struct thread_side *side = bpf_map_lookup_elem(&sides, &slot);
    if (!side || !thread || !record)
        return 0;
    begin_ask(&ask, thread, record, thread->after, TALLY_PATH);
    __u32 length = thread->path_length;
    ask.value = side->open_flags;
    ask.length = length;
    ask.name_at = (__u64)side->path;
    ask.hash = hash_path(side->path, head_of_path(thread));
    if (thread->path_rests) { /* its end stands there */
        ask.name_at = (__u64)side->address + TALLY_NAME - length;
        ask.hash = mix(hash_name(side->address, TALLY_NAME, TALLY_NAME / 8) + length, ask.hash);
    }
    return tally_in(&ask, TALLY_REGION_PATH);
}

/* The break that the process's last brk left, which stands for the one before a brk whose entry was not seen; 0: none
 * was recorded.  This one's is noted. */
static __always_inline __u64 last_break(struct task_struct *task, struct syscall_record *record)
{
    __u32 tgid = task->tgid;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (!process)
        return 0;
    __u64 before = process->break_end;
    process->break_end = record->ret;
    return before;
}

static __noinline int end_memory(struct thread_slot *thread, __u32 slot, struct syscall_record *record, __u32 call)
{
    if (record->ret < 0 && record->ret >= -4095)
        return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    struct thread_side *side = bpf_map_lookup_elem(&sides, &slot);
    if (!side)
        return 0;
    struct memory_record *memory = &side->memory[thread->memory_events & (MEMORY_RECORDS - 1)];
    struct mm_struct *mm = BPF_CORE_READ(task, mm);
    int untimed = record->duration_ns == NO_DURATION;
    memory->t_ns = record->start_ns + (untimed ? 0 : record->duration_ns);
    memory->start_ns = record->start_ns;
    memory->nr = record->nr;
    memory->flags = record->flags;
    memory->address = record->ret;
    memory->delta = 0;
    __s64 page = 4095;
    if (call == MEMORY_BRK) {
        __u64 seen = last_break(task, record), before = untimed ? seen : thread->break_before;
        if (before)
            memory->delta = record->ret - before;
    } else if (call == MEMORY_MMAP)
        memory->delta = (record->args[1] + page) & ~page;
    else if (call == MEMORY_MUNMAP) {
        memory->address = record->args[0];
        memory->delta = -(__s64)((record->args[1] + page) & ~page);
    } else if (call == MEMORY_MREMAP)
        memory->delta = ((record->args[2] + page) & ~page) - ((record->args[1] + page) & ~page);
    memory->rss_pages = rss_pages(mm);
    memory->minor_faults = task->min_flt;
    memory->major_faults = task->maj_flt;
    thread->memory_events += 1;
    tally_growth(thread, record, TALLY_MEMORY, memory->rss_pages);
    return 0;
}

static __always_inline __u32 is_compat(struct task_struct *task)
{
    return (task->thread_info.status & TS_COMPAT_FLAG) ? 1 : 0;
}

/* Of the thread, which is the current one. */
static __always_inline __u32 calls_compat(struct thread_slot *thread)
{
    if (casts_tasks)
        return is_compat(bpf_rdonly_cast((void *)thread->task, bpf_core_type_id_kernel(struct task_struct)));
    return is_compat(bpf_get_current_task_btf());
}

static __always_inline void keep_arguments(struct syscall_record *record, struct pt_regs *regs, __u32 compat)
{
    if (compat) { /* ia32: ebx ecx edx esi edi ebp */
        record->args[0] = (__u32)regs->bx;
        record->args[1] = (__u32)regs->cx;
        record->args[2] = (__u32)regs->dx;
        record->args[3] = (__u32)regs->si;
        record->args[4] = (__u32)regs->di;
        record->args[5] = (__u32)regs->bp;
    } else {
        record->args[0] = regs->di;
        record->args[1] = regs->si;
        record->args[2] = regs->dx;
        record->args[3] = regs->r10;
        record->args[4] = regs->r8;
        record->args[5] = regs->r9;
    }
}

/* uretprobe (335, since 6.11) and uprobe (336, since 6.18) are calls that the kernel's own
 * trampolines make: the program has not made them. */
static __always_inline int is_of_probe(long nr)
{
    return (unsigned long)nr - 335 < 2 && !is_compat(bpf_get_current_task_btf());
}

/* The value of slot_of for who calls, from there. */
static __noinline __u32 ask_caller(__u64 at)
{
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 tid = task->pid;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry)
        return 0;
    remember_caller(task, at, *entry);
    return *entry;
}

/* The slot of who calls, after (re)deciding; 0: not recorded.  counted: another program counts
 * whom there is no place for in slot_of. */
static __always_inline struct thread_slot *decide(__u64 at, __u32 *slot, __u32 counted)
{
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 tid = task->pid;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry) {
        if (!counted)
            count_loss(LOSS_TID_RANGE);
        return 0;
    }
    struct thread_slot *thread = decide_slot(task, entry);
    remember_caller(task, at, *entry);
    *slot = *entry - 1;
    return thread;
}

/* The call before was never seen to return: the program for returns was busy on that CPU. */
static __noinline int keep_unreturned(struct thread_slot *thread, __u32 slot)
{
    struct syscall_record *record = &thread->call[(thread->syscalls - 1) & 1];
    keep_call(thread, record, thread->after);
    if (READ_AGAIN(thread->after) & CLASS_PATH_MASK)
        keep_path(thread, slot, &thread->call[(READ_AGAIN(thread->syscalls) - 1) & 1], READ_AGAIN(thread->after));
    return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(record_enter, struct pt_regs *regs, long nr)
{
    if (is_of_probe(nr))
        return 0;
    __u64 at = registers_at(regs);
    __u32 value = known_caller(at), epoch = watch_epoch & SLOT_EPOCH;
    if (!value)
        value = ask_caller(at);
    if (value == (SLOT_IGNORED | epoch))
        return 0;
    __u32 slot = value - 1;
    struct thread_slot *thread = 0;
    if (slot < slots)
        thread = bpf_map_lookup_elem(&threads, &slot);
    if (!thread || thread->epoch != epoch) {
        thread = decide(at, &slot, 0);
        if (!thread)
            return 0;
    }
    if (thread->in_call)
        keep_unreturned(thread, slot);
    if (thread->untimed) {
        thread->in_call = 0;
        return 0;
    }
    __u64 index = thread->syscalls;
    struct syscall_record *record = &thread->call[index & 1];
    __u32 compat = calls_compat(thread);
    record->start_ns = bpf_ktime_get_ns();
    record->duration_ns = IN_FLIGHT;
    record->nr = nr;
    record->flags = compat;
    keep_arguments(record, regs, compat);
    *(volatile __u32 *)&thread->in_call = 1; /* first: who reads between the two sees the one before, which is whole */
    *(volatile __u64 *)&thread->syscalls = index + 1;
    __u32 class = syscall_class[compat][nr & (SYSCALL_CLASSES - 1)] & thread->keeps;
    thread->after = class;
    class &= CLASS_KEEPS;
    if (class) {
        if (class & CLASS_PATH_MASK) {
            thread->opens += 1;
            read_path(thread, slot, record, class);
        } else if (address_call(class) && address_call(class) != EVENTS_TAKEN) /* of these nothing is there yet */
            begin_address(thread, slot, record, address_call(class));
        else if (class_memory(class) == MEMORY_BRK)
            thread->break_before = BPF_CORE_READ(bpf_get_current_task_btf(), mm, brk);
    }
    return 0;
}

/* Whether the mmap(2) has mapped code of a file. */
static __always_inline int maps_code(const struct syscall_record *record)
{
    return (record->args[2] & MAPPED_EXEC) && !(record->args[3] & MAPPED_ANONYMOUS) && (__s32)record->args[4] >= 0 &&
           record->ret > 0;
}

/* What the return of a call adds besides its record. */
static __always_inline void end_call(struct thread_slot *thread, __u32 slot, struct syscall_record *record, __u32 class)
{
    if (class & CLASS_SIGRETURN) {
        if (thread->signal_frames)
            thread->signal_frames -= 1;
    } else if (class & CLASS_PATH_MASK) {
        if (has_path(thread))
            tally_path(thread, slot, record);
    } else if (address_call(class)) {
        if (end_address(thread, slot, record, address_call(class)))
            tally_peer(thread, slot, record);
    } else if (class_memory(class)) {
        end_memory(thread, slot, record, class_memory(class));
        if (class_memory(class) == MEMORY_MMAP && maps_code(record)) {
            struct task_struct *task = bpf_get_current_task_btf();
            tell_of_module(task, file_of_descriptor(task, record->args[4]), record->ret);
        }
    }
}

/* The child returns from the call that made it: it has made no call yet. */
static __always_inline int is_birth(__u32 class, long ret)
{
    return (class & CLASS_FORK) && ret == 0;
}

/* Records the call that returns in the thread, of which nobody has seen its entry; 0: it is none. */
static __always_inline int record_whole(struct thread_slot *thread, struct pt_regs *regs, long ret)
{
    __u64 index = thread->syscalls;
    struct syscall_record *record = &thread->call[index & 1];
    __u32 compat = calls_compat(thread), flags = compat;
    long nr = (long)regs->orig_ax;
    if (nr < 0) { /* left by sigreturn, and by the calls of the kernel's own trampolines (is_of_probe) */
        if (!thread->signal_frames)
            return 0;
        nr = compat ? NR_RT_SIGRETURN_IA32 : NR_RT_SIGRETURN;
        flags |= SYSCALL_ARGS_GONE;
    }
    __u32 class = syscall_class[compat][nr & (SYSCALL_CLASSES - 1)] & thread->keeps;
    if (is_birth(class, ret))
        return 0;
    if ((class & CLASS_EXEC) && ret == 0) {
        flags |= SYSCALL_ARGS_GONE;
        class = 0;
    }
    record->start_ns = bpf_ktime_get_ns();
    record->duration_ns = NO_DURATION;
    record->ret = ret;
    record->nr = nr;
    record->flags = flags;
    keep_arguments(record, regs, compat);
    thread->syscalls = index + 1;
    thread->after = class;
    return 1;
}

/* For calls of either kind: the few that are something else cost a look. */
static __always_inline int may_change_user(unsigned long nr)
{
    return nr - NR_SETUID <= NR_SETRESUID - NR_SETUID || nr - NR_SETREUID_IA32 <= NR_SETUID_IA32 - NR_SETREUID_IA32 ||
           nr == NR_SETUID16_IA32 || nr == NR_SETREUID16_IA32 || nr == NR_SETRESUID16_IA32;
}

static __always_inline int changes_user(unsigned long nr, __u32 compat)
{
    if (!compat)
        return nr == NR_SETUID || nr == NR_SETREUID || nr == NR_SETRESUID;
    return nr == NR_SETUID_IA32 || nr == NR_SETREUID_IA32 || nr == NR_SETRESUID_IA32 || nr == NR_SETUID16_IA32 ||
           nr == NR_SETREUID16_IA32 || nr == NR_SETRESUID16_IA32;
}

/* Servers that take a client's user for each request do so thousands of times a second: the daemon, which finds probes
 * for a process and gives it its permit, is told of the first of a second. */
#define TOLD_PER_SECOND 8
#define NS_PER_SECOND 1000000000ULL
struct user_changes {
    __u64 second;
    __u64 count;
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32); /* tgid */
    __type(value, struct user_changes);
} user_changes SEC(".maps");

static __always_inline int is_told_of(__u32 tgid)
{
    __u64 second = bpf_ktime_get_ns() / NS_PER_SECOND;
    struct user_changes *seen = bpf_map_lookup_elem(&user_changes, &tgid);
    if (!seen || seen->second != second) {
        struct user_changes first = {.second = second, .count = 1};
        bpf_map_update_elem(&user_changes, &tgid, &first, BPF_ANY);
        return 1;
    }
    return __sync_fetch_and_add(&seen->count, 1) < TOLD_PER_SECOND;
}

/* The user a thread runs as is one of the things rules know it by: it decides again at its next call, and so does a
 * process that was ruled out as another user's.  The C library changes all threads of a process, each in its own call.
 */
static __noinline int decide_as_another(void)
{
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 tid = task->pid, tgid = task->tgid;
    struct process_entry *process = decide_at_next_call(task, tid, tgid);
    if (!process)
        return 0;
    process->asked_epoch = 0;
    if (process->key.exe_inode)
        process->key.uid = BPF_CORE_READ(task, cred, euid.val);
    if (is_told_of(tgid))
        process->told_epoch = process->permit_epoch = 0;
    return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(record_exit, struct pt_regs *regs, long ret)
{
    __u64 at = registers_at(regs);
    __u32 value = known_caller(at), epoch = watch_epoch & SLOT_EPOCH;
    if (!value)
        value = ask_caller(at);
    if (may_change_user(regs->orig_ax) && ret == 0 &&
        changes_user(regs->orig_ax, is_compat(bpf_get_current_task_btf())))
        decide_as_another();
    if (value == (SLOT_IGNORED | epoch))
        return 0;
    __u32 slot = value - 1;
    struct thread_slot *thread = 0;
    if (slot < slots)
        thread = bpf_map_lookup_elem(&threads, &slot);
    if (thread && thread->in_call) {
        struct syscall_record *record = &thread->call[(thread->syscalls - 1) & 1];
        record->ret = ret;
        record->duration_ns = bpf_ktime_get_ns() - record->start_ns;
    } else {
        if (!thread || thread->epoch != epoch) {
            /* of a thread that has no slot the entry has been counted */
            if (entries_recorded && value == (SLOT_REFUSED | epoch))
                return 0;
            /* one that gets no slot must not be told as having lost a call */
            __u32 compat = is_compat(bpf_get_current_task_btf());
            if (is_birth(syscall_class[compat][regs->orig_ax & (SYSCALL_CLASSES - 1)], ret))
                return 0;
            thread = decide(at, &slot, entries_recorded);
            if (!thread)
                return 0;
        }
        if (!record_whole(thread, regs, ret))
            return 0;
    }
    if (thread->after & CLASS_PATH_MASK)
        finish_path(thread, slot, &thread->call[(thread->syscalls - 1) & 1], thread->after);
    /* For both ways in one place: the packing is inlined, and needs much of the stack.  So what is wanted behind it is
     * read again. */
    keep_call(thread, &thread->call[(thread->syscalls - 1) & 1], thread->after);
    __u32 class = READ_AGAIN(thread->after);
    struct syscall_record *record = &thread->call[(READ_AGAIN(thread->syscalls) - 1) & 1];
    if (class & CLASS_PATH_MASK) /* before the call is over for who reads it */
        keep_path(thread, slot, record, class);
    thread->in_call = 0;
    if (is_notable(record, class))
        tally_call(thread, record, class);
    if ((class & CLASS_NEW_FD) && record->ret >= 0)
        tally_growth(thread, record, TALLY_DESCRIPTORS, record->ret);
    class &= CLASS_KEEPS;
    if (!class)
        return 0;
    if (class & CLASS_PAYLOAD)
        keep_payload(thread, record, class);
    end_call(thread, slot, record, class);
    return 0;
}
