/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What the kernel side and the user side agree on: ring records, map values and
 * ring-buffer events.  Included by the BPF programs (C, after vmlinux.h) and by
 * the daemon and capture/ (C++).  Fixed-width types, explicit padding, sizes
 * asserted at the end by both compilers.
 *
 * Times are CLOCK_MONOTONIC nanoseconds (bpf_ktime_get_ns) unless a name says
 * "boot": those are CLOCK_BOOTTIME (task->start_boottime), the clock that
 * /proc/PID/stat field 22 counts in ticks.
 * A process is keyed by (tgid, process_start_boot_ns), a thread by (tid,
 * thread_start_boot_ns) within it; comm is a label.  Ids are those of the
 * initial pid namespace.
 */
#ifndef INCIDENT_BPF_EVENT_H
#define INCIDENT_BPF_EVENT_H

#ifdef __cplusplus
#include <linux/types.h> /* __u32 and kin */
namespace incident::bpf
{
#define EVENT_ASSERT(condition) static_assert(condition, #condition)
#else
#define EVENT_ASSERT(condition) _Static_assert(condition, #condition)
#endif

/* Layout version of everything below. */
#define EVENT_LAYOUT 18

#define COMM_LEN 16
#define LIMITS 16 /* RLIM_NLIMITS */
#define SYSCALL_ARGS 6
#define MEMORY_RECORDS 16
#define SIGNAL_RECORDS 16
#define LINEAGE_RECORDS 8
#define PATH_MAX_LEN 4096   /* PATH_MAX (include/uapi/linux/limits.h): with its NUL */
#define PATH_HEAD_LEN 1024  /* of it in thread_side, with a NUL */
#define ADDRESS_MAX_LEN 128 /* sizeof(struct sockaddr_storage) */
#define EXE_NAME_LEN 256
#define DYING_RESERVE 256   /* entries of map "processes" for those that die without one: [record] processes live */
#define STACK_PLACES 16384  /* threads known by their kernel stacks: 8 bytes each */
#define STACK_ALIGNED 16384 /* THREAD_SIZE (arch/x86/include/asm/page_64_types.h), or half of it */
#define ARGS_LEN 1024
#define PATH_PARTS 24       /* directory levels of a path copied out of dentries */
#define PATH_PART_LEN 256   /* NAME_MAX and its NUL */
#define PATH_NAMES_LEN 2048 /* of a path: beyond it no component begins */
#define CGROUP_PARTS 12
#define MEMORY_LEVELS 12
#define CGROUP_PART_LEN 96
#define KERNEL_FRAMES 32
#define REGISTER_WINDOWS 17 /* the 16 general registers, and the instruction pointer */
#define WINDOW_LEN 256      /* bytes around a pointer: 128 before, 128 from it on */
#define VMA_RECORDS 4
#define VMA_NAME_LEN 64
#define MAPS_ENTRIES 256    /* mappings an event */
#define MAPS_NAMES_LEN 8192 /* bytes of path components an event */
#define MAPS_PART_LEN 256   /* NAME_MAX and its NUL */
#define MAPS_PATH_ROOM 2048 /* what must be free to begin another path in the same event */
#define POINTER_WINDOWS 64
#define PENDING_RETURNS 64 /* of a thread: MAX_URETPROBE_DEPTH (include/linux/uprobes.h, kernel/events/uprobes.c) */
#define ELF_HEAD_LEN 1024
#define ELF_HEADS 2
#define STACK_PAGES_MAX 64
#define STACK_PAGE 4096
#define RULE_BITS 64     /* conditions the kernel side tells apart; the last bit stands for all beyond */
#define ERRNO_WORDS 3    /* bitmap of error numbers 0..191 */
#define FILTER_CLAUSES 6 /* of a tracepoint filter, checked in the kernel */
#define FILTER_PREFIX_LEN 16
#define TRACEPOINT_RECORD_MAX 1024
#define DISK_NAME_LEN 32

/* ---- rings: written only by the thread they belong to ------------------- */

#define IN_FLIGHT (~0ULL)   /* syscall_record.duration_ns of a call not returned */
#define NO_DURATION (~1ULL) /* … of one whose entry was not recorded: start_ns is when it returned */

enum syscall_flags {
    SYSCALL_COMPAT = 1 << 0,    /* number is of the 32-bit table (int 0x80, TS_COMPAT) */
    SYSCALL_ARGS_GONE = 1 << 1, /* taken at the return of a call that leaves no arguments: execve, rt_sigreturn */
};

/* One call, as long as its thread is in it and as the daemon reads it.  What is over is kept packed (bpf/packed.h). */
struct syscall_record {
    __u64 start_ns;
    __u64 duration_ns;
    __s64 ret; /* -errno or value; meaningless while in flight */
    __s32 nr;
    __u32 flags; /* enum syscall_flags */
    __u64 args[SYSCALL_ARGS];
};

/* Map "segments": where calls are kept that are over, packed.  A thread's segments are a chain from its oldest to its
 * newest, to which only the thread itself writes.  A segment that is no longer the newest never changes, until it is
 * taken out of the chain at its old end: by the thread, for its next calls, or by the daemon, for others.  Whoever has
 * moved thread_slot.oldest on in one step (compare and swap) has taken it. */
#define SEGMENT_BYTES 2048
#define OWN_SEGMENTS 4 /* that a thread gets, whatever its user has: some 128 calls and more */
#define SEGMENT_HEAD 56
#define SEGMENT_WORDS ((SEGMENT_BYTES - SEGMENT_HEAD) / 4)
struct call_segment {
    __u64 filled;     /* words used, and in the upper half the calls in them: both change in one step */
    __u64 generation; /* of the thread_slot: a slot's next thread goes on with the chain of the one before */
    __u64 first;      /* index (thread_slot.syscalls) of the first of its calls */
    __u64 start_ns;   /* what the first of them counts its start from */
    __u64 last_ns;    /* start of the last: the kernel side's own */
    __u32 serial;     /* segments of a chain have successive ones */
    __u32 share;      /* index into share_words of the user whom it is charged to */
    __u32 next, prev; /* index + 1 of the newer and of the older one */
    __u32 words[SEGMENT_WORDS];
};

enum path_status {
    PATH_KEPT = 0,
    PATH_CUT = 1,     /* it goes on: it is longer than PATH_MAX_LEN - 1, or found no segment */
    PATH_FAULT = 2,   /* user memory not readable, neither at entry nor at exit */
    PATH_PENDING = 3, /* not readable at entry; tried again at exit */
};

/* brk, mmap, munmap, mremap that succeeded. */
struct memory_record {
    __u64 t_ns; /* at return */
    __s32 nr;
    __u32 flags;                      /* enum syscall_flags */
    __u64 address;                    /* result: new break, mapping */
    __s64 delta;                      /* bytes of address space gained or given back; 0 = unknown (brk query) */
    __u64 rss_pages;                  /* of the process, at t_ns */
    __u64 minor_faults, major_faults; /* of the thread, at t_ns */
    __u64 start_ns;                   /* of the call */
};

/* A slot's way: FREE → LIVE → FREE when its thread exits; or, of a thread that dies by
 * signal, LIVE → PINNED, then the thread's exit and the daemon's having read it, in
 * either order: the second to come gives the slot back. */
enum slot_state {
    SLOT_FREE = 0,
    SLOT_LIVE = 1,     /* a thread writes to it */
    SLOT_PINNED = 2,   /* its thread passed signal_deliver and makes no further call; the daemon will read it */
    SLOT_EXITED = 3,   /* was pinned and its thread has exited: the daemon gives it back */
    SLOT_RELEASED = 4, /* was pinned and the daemon has read it: the exit gives it back */
};

/* Map "threads": one per slot.  The first cache line is the hot one. */
struct thread_slot {
    __u64 syscalls; /* calls entered so far = index of the next record when none is in flight */
    __u32 tid;
    __u32 epoch;   /* of the watch decision; 0: undecided */
    __u32 in_call; /* 1 between entry and exit: record (syscalls - 1) is in flight */
    __u32 state;   /* enum slot_state */
    __u32 after;   /* class of the call in flight: what its return still has to record */
    __u32 tgid;
    __u64 task;       /* its task_struct */
    __u64 generation; /* counts the slot's users */
    __u64 rules;      /* bit i: the condition with bit i of rules_generation is about this thread's process */
    __u64 thread_start_boot_ns;
    __u64 process_start_boot_ns;
    __u64 first_ns; /* recording began */

    __u64 opens; /* calls that name a path, so far */
    __u64 memory_events;
    __u64 exit_ns;     /* sched_process_exit, 0 while alive */
    __u32 path_of;     /* low half of syscalls as it was in the call whose path thread_side.path is */
    __u16 path_length; /* bytes of that, without a NUL */
    __u8 path_rests;   /* pieces of it that do not stand there, but in segments: PACKED_PATH_REST */
    __u8 path_is_cut;  /* 1: it goes on beyond what is kept */
    __u64 paths_cut;
    __u64 paths_faulted;
    __u32 captured; /* 1: a thread_event was sent; 2: it could not be (ring buffer full) */
    __u32
        since_birth; /* 1: seen from its birth, or from the exec that made it one to watch: nothing later is missing */
    char comm[COMM_LEN];
    __u64 break_before;     /* mm->brk at the entry of the brk in flight */
    __u32 rules_generation; /* of rules: in another one the bits mean other conditions */
    __u32 address_of;       /* low half of syscalls as it was in the call whose address thread_side.address is */
    /* kept only while a "blocked" rule is loaded */
    __u64 off_ns;     /* left the CPU, not for want of one; 0: it is on, or wants one */
    __u64 blocked_ns; /* how long the wait was that its call in flight has to report */
    __u64 blocked_from_ns, blocked_until_ns;
    __u64 off_state; /* task state it left with */

    __u64 judged;        /* calls a "syscall" or "blocked" rule has looked at, while one is loaded */
    __u32 signal_frames; /* handlers entered less those seen to return: longjmp leaves one for ever */
    __u32 share;         /* index into share_words of the user whose slot it is */

    __u64 oldest;   /* of its segments: index + 1, and in the upper half its serial; 0: it never had one */
    __u32 newest;   /* index + 1 */
    __u32 segments; /* in the chain */
    __u32 refused;  /* 1: it has written over calls of its own, for it got no further segment; the daemon clears it */
    __u32 unkept;   /* calls that found no segment at all */
    __u32 granted;  /* segments that it may have although its user has her share: the daemon's word, for a second */
    __u8 memory_level, descriptor_level; /* the last that were told (bpf/tallies.h) */
    __u16 address_length;                /* bytes of thread_side.address */
    __u32 untimed;                       /* 1: the entries of its calls are not recorded (struct untimed_key) */
    __u32 keeps;                         /* bits of syscall_class that are kept of its calls */
    struct syscall_record call[2];       /* call i is call[i & 1]: the one in flight or the last, and the one before */
    __u64 requests;                      /* of io_uring, which were completed in its context: see requests.h */
    __u64 requests_unkept;               /* … that found no segment */
    __u64 pad2;
};

/* Map "untimed": the processes whose calls cost more than the budget has room for.  Like all calls where [record]
 * durations = false, theirs are recorded as they return, without a duration. */
#define UNTIMED_MAX 1024
struct untimed_key {
    __u64 start_boot_ns; /* of the process */
    __u32 tgid;
    __u32 zero;
};

/* Map "sides": what a slot needs besides, and is not looked at in each call. */
struct thread_side {
    struct memory_record memory[MEMORY_RECORDS];
    char path[PATH_HEAD_LEN];      /* that the call in flight, or the last one, names; its beginning, if that is long */
    __u64 open_flags;              /* of the call that names it: openat's, openat2's open_how.flags; 0 if it has none */
    char address[ADDRESS_MAX_LEN]; /* struct sockaddr that the call in flight, or the last one, names */
    __u64 about_peer;              /* of the one accepted last, see accepted_peer() */
};

/* ---- processes ----------------------------------------------------------- */

enum signal_phase {
    SIGNAL_GENERATED = 1, /* in the sender's context: sender fields are right */
    SIGNAL_DELIVERED = 2, /* in the target's context: what the target does with it */
};

enum signal_disposition {
    DISPOSITION_UNKNOWN = 0,
    DISPOSITION_FATAL = 1,
    DISPOSITION_HANDLED = 2,
    DISPOSITION_IGNORED = 3,
    DISPOSITION_STOP = 4,
};

struct signal_record {
    __u64 t_ns;
    __s32 number, code;
    __s32 si_errno;
    __u32 target_tid;
    __u64 address; /* si_addr of a fault, si_value of a queued signal */
    __u64 sender_start_boot_ns;
    __u32 sender_tgid, sender_tid;
    __u32 sender_uid;
    __u8 phase;       /* enum signal_phase */
    __u8 group;       /* generated: to the process, not one thread */
    __u8 result;      /* generated: enum of include/trace/events/signal.h: 0 delivered, 1 ignored, 2 already pending, 3
                         overflow fail, 4 lose info */
    __u8 disposition; /* delivered: enum signal_disposition */
    char sender_comm[COMM_LEN];
    __u64 seq; /* written last; equals its index + 1 when the record is whole */
};

enum lineage_kind {
    LINEAGE_FORK = 1,
    LINEAGE_EXEC = 2,
    LINEAGE_CHILD = 3,
    LINEAGE_CHILD_EXIT = 4,
    LINEAGE_THREAD_EXIT = 5
};

struct lineage_record {
    __u64 t_ns;
    __u32 kind;   /* enum lineage_kind */
    __u32 tid;    /* of the child, of the exec'ing thread */
    __s32 status; /* wait status of an exited child */
    __u32 pad;
    char comm[COMM_LEN]; /* of the child; the new one of an exec */
};

/* The key of the decision whether a process is recorded. */
struct watch_key {
    __u64 cgroup_id;  /* of the default hierarchy */
    __u64 cgroup_set; /* kernel address of the css_set: tells v1 hierarchies apart */
    __u64 exe_inode;
    __u64 exe_dentry; /* kernel address: tells hard links apart */
    __u64 exe_mount;  /* kernel address: one file may be mounted in several places, under several names */
    __u32 exe_device;
    __u32 uid;           /* effective */
    char comm[COMM_LEN]; /* of the leader; zero unless a rule matches comm */
};

/* Map "processes", keyed by tgid; kept from fork (or first sight) to exit, and of
 * a process that died by signal until the daemon deletes it. */
struct process_entry {
    __u64 start_boot_ns;
    __u64 first_ns; /* first event seen */
    __u64 fork_ns;  /* 0: older than the daemon */
    __u64 exec_ns;  /* last exec, 0: none seen */
    __u64 parent_start_boot_ns;
    __u32 parent_tgid;
    __u32 tgid;
    char parent_comm[COMM_LEN];
    char exec_name[EXE_NAME_LEN]; /* as given to the last execve seen (bprm->filename) */
    __u32 execs;
    __u32 since_birth;
    __u32 uid;
    __u32 asked_epoch; /* generation in which the daemon was asked about it */

    /* death by signal: the first thread that passes signal_deliver with a fatal signal writes it */
    __u64 death_ns; /* 0: alive. compare-and-swap from 0 */
    __u64 gone_ns;  /* the last thread exited */
    __s32 death_signal, death_code;
    __u32 death_tid;
    __u32 death_event; /* 1: the death_event was sent; 2: it could not be */
    __u64 death_address;
    __u32 threads_sent, threads_unsent;
    __u64 syscalls_unrecorded; /* made by threads that had no slot */
    __u32 threads_unrecorded;
    __u32 told_epoch;      /* generation in which the daemon was told of it (EVENT_STARTED) */
    __u64 kernel_kill_ns;  /* SIGKILL by the kernel itself (SEND_SIG_PRIV), as the OOM killer does; 0: none */
    __u64 memory_ended;    /* threads that had changed the address space and ended before the process, since its exec */
    __u64 memory_ended_ns; /* the last of them */
    __u64 calls_ended;     /* made by threads that had a ring and ended before the process */
    __u64 threads_ended;   /* so many */
    __u64 break_end;       /* what the last brk left; 0: none recorded since its exec */
    __u64 stacks_switched; /* while such were watched: 1 when a thread of it went over to another stack */
    __u64 identity_ns;     /* when it last became what rules know it by: made, executed, moved to another cgroup */
    __u32 permit_epoch;    /* generation of decisions in which the daemon was asked for its permit (EVENT_PERMIT) */
    __u32 share;           /* index into share_words of the user whose entry it is */
    struct watch_key key;  /* by which it was decided about last; all 0: nobody had to be asked */

    __u64 requests_unseen;   /* of io_uring: there was no place in map "io_requests", or nobody recorded their end */
    __u64 requests_doubtful; /* … that may have ended without a completion of theirs that says so */
    __u64 tallies_forgotten; /* facts about it that others have replaced */
    __u32 memory_level, descriptor_level; /* the highest so far, of memory since its exec (bpf/tallies.h) */

    __u64 signals; /* records written so far */
    __u64 lineage;
    struct signal_record signal[SIGNAL_RECORDS];
    struct lineage_record line[LINEAGE_RECORDS];
};

/* ---- ring-buffer events -------------------------------------------------- */

enum event_kind {
    EVENT_DEATH = 1,     /* struct death_event: once a process, by the thread whose signal kills it */
    EVENT_THREAD = 2,    /* struct thread_event + stack bytes: each thread of that process */
    EVENT_GONE = 3,      /* struct event_header: the last thread of it has exited */
    EVENT_SIGNAL = 4,    /* struct death_event with fatal = 0: a handled or ignored signal a rule asked for */
    EVENT_WATCH = 5,     /* struct watch_event: is this process to be watched? */
    EVENT_SNAPSHOT = 6,  /* struct death_event with fatal = 0: a process that a trigger, or the daemon, asked about */
    EVENT_TRIGGER = 7,   /* struct trigger_head and what its kind adds: a rule may fire */
    EVENT_OOM = 8,       /* struct oom_event: the OOM killer has chosen */
    EVENT_MAPS = 10,     /* struct maps_event: the mappings of a process that dies; after its EVENT_DEATH */
    EVENT_POINTERS = 11, /* struct pointers_event: what the crashed thread's stack points at; before its EVENT_THREAD */
    EVENT_RETURNS = 12,  /* struct returns_event: of a thread in probed functions; before its EVENT_THREAD */
    EVENT_STARTED = 9,   /* struct trigger_head: a process that latency rules are about was seen for the first time */
    EVENT_PERMIT = 22,   /* struct trigger_head: may the kernel side make this process dump core by itself? */
    EVENT_LATENCY = 20,  /* struct latency_event: a probed call is over and took too long */
    EVENT_CODE = 23,     /* struct event_header: the process is about to run code that its dynamic loader has mapped */
    EVENT_MODULE = 24,   /* struct module_event: a process has mapped code of a file for the first time */
    EVENT_TXG = 21,      /* struct txg_event: a sync of a ZFS pool that took long has returned */
};

struct event_header {
    __u32 kind;   /* enum event_kind */
    __u32 layout; /* EVENT_LAYOUT */
    __u64 t_ns;
    __u32 tgid, tid;
    __u64 process_start_boot_ns;
    __u64 thread_start_boot_ns;
    /* Where the kernel has put the code and the stack of the program it executes (mm_struct), which /proc/PID/stat
     * says as well: another program of the same process has others.  0: it had no memory, or nobody looked. */
    __u64 start_code, start_stack;
};

/* A path out of the kernel's own dentries: its components with their NULs, the last one first; the one that comes last
 * lies next to the root of the task's mount namespace. */
struct kernel_path {
    __u32 parts;
    __u32 cut;    /* more than PATH_PARTS levels, or more names than have room */
    __u32 length; /* bytes of names */
    __u32 pad;
    char names[PATH_NAMES_LEN + PATH_PART_LEN];
};

struct vma_record {
    __u64 start, end;
    __u64 page_offset; /* in pages, as vm_pgoff */
    __u64 flags;       /* VM_READ 1, VM_WRITE 2, VM_EXEC 4, VM_SHARED 8 (include/linux/mm.h) */
    __u64 inode;       /* 0: anonymous */
    __u32 device;      /* kernel's internal dev_t: major << 20 | minor */
    __u32 pad;
    char name[VMA_NAME_LEN]; /* last path component, cut to fit */
};

/* First bytes of an ELF file as mapped, for its build-id note. */
struct elf_head {
    __u64 address; /* start of the mapping with page_offset 0; 0: unused */
    __u32 length;  /* bytes read, 0: not resident */
    __u32 pad;
    __u8 bytes[ELF_HEAD_LEN];
};

struct limit { /* struct rlimit */
    __u64 soft, hard;
};

struct death_event {
    struct event_header h;
    __s32 number, code, si_errno; /* what kills: group_exit_code's signal for one that arrives as SIGKILL */
    __u32 fatal;                  /* 0: EVENT_SIGNAL */
    __u32 delivered;              /* the number signal_deliver carried */
    __u32 disposition;            /* enum signal_disposition */
    __u32 group_exit_code;
    __u32 has_siginfo; /* code, address, siginfo are the kernel's; else they are the last generated record's, or 0 */
    __u64 address;
    __u8 siginfo[64]; /* first bytes of kernel_siginfo */

    char comm[COMM_LEN]; /* of the dying thread */
    char leader_comm[COMM_LEN];
    __u32 uid, gid, euid, loginuid;
    __u32 parent_tgid; /* real_parent now */
    __u32 threads;     /* signal->nr_threads */
    __u64 parent_start_boot_ns;
    char parent_comm[COMM_LEN];
    __u32 pid_ns, mnt_ns, net_ns, user_ns, cgroup_ns;
    __u32 ns_tgid;               /* own pid as the process itself sees it */
    __u32 dumpable;              /* mm->flags MMF_DUMPABLE: 0 no, 1 yes, 2 root only */
    __u32 oom_score_adj_plus;    /* oom_score_adj + 1000 */
    struct limit limits[LIMITS]; /* resource limits, by RLIMIT_CPU and so on; all 0: not known */
    __u64 cgroup_id;             /* of the default (v2) hierarchy */
    __u64 rss_file_pages, rss_anon_pages, rss_shmem_pages, swap_pages;
    __u64 total_vm_pages, hiwater_rss_pages, hiwater_vm_pages;
    __u64 minor_faults, major_faults; /* of the whole process, ended threads included */
    __u64 start_code, end_code, start_brk, brk, start_stack, arg_start, arg_end, env_start, env_end;
    __u32 args_length; /* bytes of args; argv's strings with their NULs */
    __u32 args_cut;
    char args[ARGS_LEN];
    struct kernel_path exe;
    __u32 cgroup_parts, cgroup_cut;
    char cgroup[CGROUP_PARTS][CGROUP_PART_LEN]; /* [0] is the innermost */
    __u32 vmas;
    __u32 pad;
    struct vma_record vma[VMA_RECORDS];
    struct elf_head elf[ELF_HEADS]; /* of the module ip lies in; of the executable */
    __u64 auxv[48];                 /* mm->saved_auxv */
};

enum maps_flag { /* beside VM_READ, VM_WRITE and VM_EXEC, which are 1, 2 and 4 */
                 MAPS_SHARED = 8,
                 MAPS_DELETED = 16,
                 MAPS_PATH_CUT = 32, /* deeper than PATH_PARTS, or the names had no room */
};

struct maps_entry {
    __u64 start, end;
    __u64 page_offset; /* vm_pgoff */
    __u64 inode;       /* 0: anonymous */
    __u32 device;      /* kernel's internal dev_t */
    __u16 flags;
    __u16 parts; /* of its path: strings with their NULs in names, from path on, last component first */
    __u32 path;
    __u32 pad;
};

/* Sent with as many entries as are used. */
struct maps_event {
    struct event_header h;
    __u32 count;
    __u32 names_length;
    __u32 part; /* 0, 1, 2 … of one address space */
    __u16 more; /* another part follows */
    __u16 cut;  /* the walk ended early: mappings are missing */
    char names[MAPS_NAMES_LEN];
    struct maps_entry entry[MAPS_ENTRIES];
};

/* A file, as far as the kernel can tell one from another. */
struct module_key {
    __u64 inode;
    __u64 size;
    __u32 device;     /* of the superblock, MKDEV: 12 bits of the major number above 20 of the minor */
    __u32 generation; /* of the inode: another for another file that is given its number */
};

struct module_event {
    struct event_header h;
    struct module_key key;
    __u64 start; /* of the mapping */
    __u32 uid;   /* real user id of the process */
    __u32 pad;
};

enum window_status { WINDOW_UNUSED = 0, WINDOW_READ = 1, WINDOW_ABSENT = 2, WINDOW_PARTIAL = 3 };

/* Memory around a pointer: bytes[0] is at address. */
struct memory_window {
    __u64 address;
    __u16 length; /* bytes read */
    __u8 status;  /* enum window_status */
    __u8 which;   /* index into user_registers, or one of the next */
    __u32 pad;
    __u8 bytes[WINDOW_LEN];
};

#define WINDOW_OF_STACK 254   /* a word of the stack points there */
#define WINDOW_OF_MAPPING 253 /* the last mapping the thread made before abort(3) raised SIGABRT */

/* Sent with as many windows as are used. */
struct pointers_event {
    struct event_header h;
    __u32 count;
    __u32 pad;
    struct memory_window window[POINTER_WINDOWS];
};

/* A function that is to return to the kernel's trampoline, because its return is probed. */
struct pending_return {
    __u64 place;          /* on the user stack: where the trampoline's address stands instead of … */
    __u64 return_address; /* … this one */
};

struct returns_event {
    struct event_header h;
    __u64 trampoline; /* its address, the same in the whole address space */
    __u32 count;
    __u32 cut;                                      /* 1: there were more */
    struct pending_return pending[PENDING_RETURNS]; /* innermost call first */
};

/* In the order of struct user_regs_struct (ptrace, NT_PRSTATUS), without the
 * segment bases and selectors, which follow by name. */
struct user_registers {
    __u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
    __u64 fs_base, gs_base;
    __u16 ds, es, fs, gs;
};

/* Map "kept_deaths", by tgid: of a process whose death_event found no room, until the daemon has read it. */
#define KEPT_DEATHS 1024
struct kept_death {
    __u64 start_boot_ns;
    __u32 share;     /* index into share_words */
    __s32 delivered; /* the rest as in death_event */
    char comm[COMM_LEN];
    char leader_comm[COMM_LEN];
    __u32 uid, gid, euid;
    __u32 threads;
    __u32 mnt_ns, net_ns, user_ns, cgroup_ns;
    __u32 dumpable;
    __u32 exe_device; /* kernel's internal dev_t */
    __u64 exe_inode;
    __u64 cgroup_id;
    __u32 cgroup_parts, cgroup_cut;
    char cgroup[CGROUP_PARTS][CGROUP_PART_LEN];
    struct kernel_path exe;
    struct user_registers regs; /* of the thread whose signal killed it */
};

enum thread_role {
    ROLE_CRASHED = 1,
    ROLE_SIBLING = 2,   /* of a process that dies */
    ROLE_SIGNALLED = 3, /* took a signal that does not kill */
    ROLE_TRIGGERED = 4, /* met a rule's condition; in its own context */
    ROLE_LIVING = 5,    /* seen from outside: registers are those of its last entry to the kernel, no memory */
};

/* Followed by stack_length bytes: pages of the user stack.  Those that are absent are left out, so each says its place.
 */
struct thread_event {
    struct event_header h;
    __u32 role;      /* enum thread_role */
    __s32 delivered; /* signal number signal_deliver carried */
    __u32 slot;      /* ~0: the thread had none */
    __u32 is_worker; /* made by the kernel for io_uring: it has no user stack and no registers */
    __u64 generation;
    char comm[COMM_LEN];
    struct user_registers regs;
    __u64 minor_faults, major_faults;
    __u64 user_ns, system_ns; /* CPU time used (task->utime, stime) */
    __u64 nvcsw, nivcsw;
    __u64 kernel_stack[KERNEL_FRAMES];
    __u32 kernel_frames;
    __s32 kernel_stack_error;
    struct memory_window window[REGISTER_WINDOWS];
    __u64 stack_address;
    __u64 stack_page[STACK_PAGES_MAX]; /* the address of each; they rise, but for … */
    __u32 stack_own; /* … this one, the first of the stack that a handler on a signal stack interrupted */
    __u32 stack_pad;
    __u32 stack_length;
    __u32 stack_wanted; /* the configured bytes */
    __u32 stack_unsent; /* 1: present, but the ring buffer had no room for it */
    __u32 state;        /* ROLE_LIVING: task_struct.__state; 0: running, or waiting for a CPU */
    __u64 capture_ns;   /* time spent in the kernel for this event */
};

enum decision { DECISION_WATCH = 1, DECISION_IGNORE = 2 };

/* Value of map "watch_decisions". */
struct watch_decision {
    __u32 decision;   /* enum decision */
    __u32 generation; /* of rules; a decision of another generation is void */
    __u64 rules;      /* as in thread_slot */
};

/* Value of map "permits", by tgid: this very process may be made to dump core by the kernel side.  The daemon writes it
 * after it has looked at exactly this process, and it holds for nobody else: not for a process with the same executable
 * and user, nor for this one once it is something else than what was looked at. */
struct permit {
    __u64 start_boot_ns;
    __u64 identity_ns; /* process_entry.identity_ns, read before the process was looked at */
    struct watch_key key;
    __u64 rules;      /* bit i: by the condition with bit i of that generation; 0: by none */
    __u64 core_limit; /* RLIMIT_CORE with which a core would have come of it */
    __u32 generation; /* of rules */
    __u32 round;      /* of the host's core settings (permit_round) */
    __u32 tgid;
    __u32 pad;
};

struct watch_event {
    struct event_header h;
    struct watch_key key;
    char comm[COMM_LEN];
    char exec_name[EXE_NAME_LEN];
    __u32 uid;
    __u32 cgroup_parts;
    char cgroup[CGROUP_PARTS][CGROUP_PART_LEN];
    struct kernel_path exe;
    __u32 generation; /* of rules: what the key tells processes apart by */
    __u32 pad;
};

/* ---- triggers ---------------------------------------------------------------- */

enum trigger_kind {
    TRIGGER_SYSCALL = 1,
    TRIGGER_BLOCKED,
    TRIGGER_EXIT,
    TRIGGER_RECLAIM,
    TRIGGER_BLOCK_IO,
    TRIGGER_TRACEPOINT,
    TRIGGER_SIGNAL,
};

/* Every trigger begins with this.  h: its subject. */
struct trigger_head {
    struct event_header h;
    __u32 kind;           /* enum trigger_kind */
    __u32 captured;       /* 1: an EVENT_SNAPSHOT and an EVENT_THREAD of this thread follow, taken in its own context */
    __u64 rules;          /* conditions whose test in the kernel it passed */
    __u16 dumped;         /* signal number already sent to it in its own context; 0: none */
    __u16 dump_bit;       /* … by the condition with this bit */
    __u32 generation;     /* of rules: what the bits mean */
    struct watch_key key; /* what rules see of the process: as long as it is the same, so are the facts */
    char comm[COMM_LEN];
};

struct syscall_trigger {
    struct trigger_head t;
    __u64 start_ns, duration_ns;
    __s64 ret;
    __s32 nr;
    __u32 flags; /* enum syscall_flags */
    __u64 args[SYSCALL_ARGS];
};

/* A wait that is over. */
struct blocked_trigger {
    struct trigger_head t;
    __u64 from_ns, until_ns; /* off the CPU; until: on it again */
    __u64 woken_ns;          /* 0: nobody was seen waking it */
    __u64 state;             /* task state it left with */
    __s32 nr;                /* system call it waited in; -1: none (a page fault) */
    __u32 syscall_flags;
    __u64 waker_start_boot_ns;
    __u32 waker_tgid, waker_tid;
    char waker_comm[COMM_LEN];
    __u32 kernel_frames, waker_kernel_frames, waker_user_frames, pad;
    __u64 kernel_stack[KERNEL_FRAMES]; /* of the waiting thread, when it was woken */
    __u64 waker_kernel_stack[KERNEL_FRAMES];
    __u64 waker_user_stack[KERNEL_FRAMES]; /* by frame pointers */
};

struct exit_trigger {
    struct trigger_head t;
    __s32 status; /* as given to exit_group(2), 0..255 */
    __u32 pad;
};

struct reclaim_trigger {
    struct trigger_head t;
    __u64 start_ns, duration_ns;
    __u64 reclaimed; /* pages */
    __u32 order;
    __u32 gfp_flags;
    __u32 cgroup; /* 1: a memory cgroup's limit; 0: direct reclaim */
    __u32 kernel_frames;
    __u64 kernel_stack[KERNEL_FRAMES];
};

struct block_io_trigger {
    struct trigger_head t;               /* whose request it was, where that was seen */
    __u64 queued_ns, issued_ns, done_ns; /* queued: 0 where not seen */
    __u64 sector;
    __u32 bytes;
    __u32 status;    /* blk_status_t (include/linux/blk_types.h), 0: fine */
    __u32 operation; /* enum req_op: 0 read, 1 write, 2 flush, 3 discard … */
    __u32 device;    /* kernel's internal dev_t */
    __u32 known;     /* 0: nobody was seen queueing it: t is about nobody */
    __u32 pad;
    char disk[DISK_NAME_LEN];
};

struct tracepoint_trigger {
    struct trigger_head t;
    __u32 tracepoint; /* the kernel's number of it (ID in its format file) */
    __u32 length;     /* bytes of record */
    __u8 record[TRACEPOINT_RECORD_MAX];
};

/* A signal that its target ignores: it is dropped where it is sent, and never delivered.  t is about the target. */
struct signal_trigger {
    struct trigger_head t;
    struct signal_record signal;
};

/* The OOM killer's victim; the process is known by its death. */
/* What a memory cgroup held when the OOM killer chose (struct page_counter). */
struct memory_level {
    __u32 depth; /* components of its path; 0: the root */
    __u32 pad;
    __u64 usage_pages, max_pages;
};

struct oom_event {
    struct event_header h; /* of the thread that was allocating; tgid and tid are its */
    __u32 victim;          /* tid or tgid of the victim, as oom:mark_victim says */
    __u32 pad;
    char comm[COMM_LEN]; /* of the allocating thread */
    __u64 cgroup_id;
    __u32 cgroup_parts, cgroup_cut;
    char cgroup[CGROUP_PARTS][CGROUP_PART_LEN];
    struct memory_level memory[MEMORY_LEVELS]; /* the allocating thread's memory cgroup and those above it */
    __u32 memory_levels;
    __u32 kernel_frames;
    __u64 kernel_stack[KERNEL_FRAMES];
};

/* One test of a tracepoint's record: all of a condition's must hold. */
enum clause_op {
    CLAUSE_NONE = 0,
    CLAUSE_EQUAL,
    CLAUSE_NOT_EQUAL,
    CLAUSE_LESS,
    CLAUSE_LESS_EQUAL,
    CLAUSE_GREATER,
    CLAUSE_GREATER_EQUAL,
    CLAUSE_BITS,
    CLAUSE_PREFIX
};
struct filter_clause {
    __u32 op; /* enum clause_op */
    __u32 offset;
    __u32 size; /* 1, 2, 4, 8; of a prefix up to FILTER_PREFIX_LEN */
    __u32 is_signed;
    __s64 number;
    char prefix[FILTER_PREFIX_LEN];
};

/* Map "conditions": by CONDITION_INDEX. */
#define CONDITION_INDEX(generation, bit) (((generation)&1) * RULE_BITS + (bit))
struct condition_settings {
    __u64 slower_than_ns;      /* syscall, reclaim, block_io; 0: any */
    __u64 errnos[ERRNO_WORDS]; /* syscall: bit n: this error; all 0: errors do not matter */
    __u64 statuses[4];         /* exit: bit n: this status */
    __u32 each;                /* 1: one match is a firing, so capture at once */
    __u32 either;              /* block_io: slow or failed; else both where given */
    __u32 failed;              /* block_io: only with an error; syscall: any error */
    __u32 operations;          /* block_io: 1 reads, 2 writes, 3 both */
    __u32 dump_signal;         /* 0: none */
    __u32 generation;          /* of rules, in which the bit has this meaning */
    __u32 id;                  /* of this very condition, which no other gets; 0: several share the bit */
    __u32 pad;
    struct filter_clause clause[FILTER_CLAUSES];
};

/* Map "tracepoints", by TRACEPOINT_KEY: the conditions about a tracepoint, for it has one program.  number: the
 * kernel's own. */
#define TRACEPOINT_KEY(generation, number) ((number) << 1 | ((generation)&1))
struct tracepoint_rules {
    __u64 rules;    /* bits of its conditions */
    __u64 everyone; /* of these, those also about threads that are not recorded (kernel threads, idle's interrupts) */
    __u32 record_length; /* bytes to copy */
    __u32 count;         /* of bit[] */
    __u32 number;        /* of the tracepoint */
    __u32 generation;    /* of rules: what the bits mean */
    __u8 bit[RULE_BITS]; /* the same bits as a list */
};

/* Map "own_costs": what programs that run for everybody took for threads of processes that rules are about,
 * while their run times were counted. */
enum own_program {
    OWN_CALL_OVER,
    OWN_THREAD_SWITCHED,
    OWN_THREAD_WOKEN,
    OWN_BIO_QUEUED,
    OWN_REQUEST_ISSUED,
    OWN_REQUEST_DONE,
    OWN_DIRECT_RECLAIM_ENDS,
    OWN_CGROUP_RECLAIM_ENDS,
    OWN_TRACEPOINT_HIT,
    OWN_PROGRAMS
};

struct own_key {
    __u64 rules;   /* conditions about the thread's process that the program serves */
    __u32 program; /* enum own_program */
    __u32 pad;
};

struct own_cost {
    __u64 runs, ns; /* ns: behind the point at which strangers are let go */
};

/* ---- ZFS syncs ------------------------------------------------------------- */

#define TXG_SYNCS 64     /* in flight at one time; a pool has one */
#define TXG_POOL_LEN 256 /* ZFS_MAX_DATASET_NAME_LEN, include/sys/fs/zfs.h of OpenZFS */

/* Map "txg_syncs": one call of spa_sync() each, scanned by the daemon through its
 * mapping.  Written only by the thread that makes the call; whole iff seq is even, and
 * the same before and after reading. */
struct txg_sync {
    __u64 seq;
    __u64 txg;
    __u64 start_ns;
    __u32 tid;       /* 0: free */
    __u32 in_flight; /* 1 between entry and return */
    char pool[TXG_POOL_LEN];
};

struct txg_event {
    struct event_header h; /* t_ns: the return; tid: the pool's txg_sync thread */
    __u64 txg;
    __u64 start_ns;
    __u64 elapsed_ns;
    char pool[TXG_POOL_LEN];
};

/* ---- what the daemon tells the programs ------------------------------------ */

/* syscall_class[compat][nr & 511]: what to keep of a call besides its record. */
#define CLASS_PATH_SHIFT 0 /* 3 bits: index + 1 of the argument that is a path */
#define CLASS_PATH_MASK 7
#define CLASS_FLAGS_SHIFT 3 /* 3 bits: index + 1 of the argument that is open flags */
#define CLASS_FLAGS_MASK 7
#define CLASS_OPEN_HOW (1 << 6) /* the flags stand in a struct open_how there */
#define CLASS_MEMORY_SHIFT 7    /* 3 bits: enum memory_call */
#define CLASS_MEMORY_MASK 7
#define CLASS_IDLE (1 << 10) /* a way of having nothing to do: poll, futex, accept … */
#define CLASS_FORK (1 << 11) /* returns a second time, in the child, with 0 */
#define CLASS_EXEC (1 << 12) /* once it has succeeded its arguments are gone */
#define CLASS_SIGRETURN (1 << 13)
#define CLASS_ARGUMENTS_SHIFT 14 /* 3 bits: how many arguments it has */
#define CLASS_ARGUMENTS_MASK 7
#define CLASS_ADDRESS_SHIFT 17 /* 4 bits: enum address_call */
#define CLASS_ADDRESS_MASK 15
#define CLASS_NEW_FD (1 << 21) /* returns a new descriptor */
#define CLASS_PAYLOAD_SHIFT 22 /* 2 bits: enum payload_call */
#define CLASS_PAYLOAD_MASK 3
#define CLASS_RECEIVES (1 << 24) /* the payload is what the caller gets */
#define CLASS_PAYLOAD (CLASS_PAYLOAD_MASK << CLASS_PAYLOAD_SHIFT)
/* What has to be kept of a call besides its record: the path, address or events it names, what it did to memory, a
 * handler's end. */
#define CLASS_KEEPS                                                                                                    \
    (CLASS_PATH_MASK << CLASS_PATH_SHIFT | CLASS_FLAGS_MASK << CLASS_FLAGS_SHIFT | CLASS_OPEN_HOW |                    \
     CLASS_MEMORY_MASK << CLASS_MEMORY_SHIFT | CLASS_SIGRETURN | CLASS_ADDRESS_MASK << CLASS_ADDRESS_SHIFT |           \
     CLASS_PAYLOAD)
/* … and stands behind the packed call, if there is any. */
#define CLASS_EXTRA (CLASS_ADDRESS_MASK << CLASS_ADDRESS_SHIFT)
#define SYSCALL_CLASSES 512

enum address_call {
    ADDRESS_GIVEN = 1, /* connect, bind: (fd, address, length) */
    ADDRESS_TO,        /* sendto: (fd, …, …, …, address, length) */
    ADDRESS_ACCEPTED,  /* accept, accept4: the peer of the descriptor that is returned */
    ADDRESS_FROM,      /* recvfrom: (fd, …, …, …, address *, length *) */
    ADDRESS_SENT,      /* sendmsg: (fd, struct msghdr *) */
    ADDRESS_RECEIVED,  /* recvmsg: (fd, struct msghdr *) */
    EVENTS_GIVEN,      /* epoll_ctl: (epfd, op, fd, struct epoll_event *) */
    EVENTS_TAKEN,      /* epoll_wait: (epfd, struct epoll_event *, …) */
};
/* The second argument is where the payload is. */
enum payload_call {
    PAYLOAD_BUFFER = 1, /* read, write, sendto, recvfrom: (fd, buffer, …) */
    PAYLOAD_VECTOR,     /* readv, writev: (fd, struct iovec *, count) */
    PAYLOAD_MESSAGE,    /* sendmsg, recvmsg: (fd, struct msghdr *) */
};
/* Bytes kept of a call, at most: a power of two, for which there is room behind a call. */
#define PAYLOAD_MAX 128
#define EPOLL_EVENT_BYTES 12 /* struct epoll_event is packed (uapi/linux/eventpoll.h, EPOLL_PACKED) */
#define EVENTS_KEPT 4        /* of those that one call returns */

enum memory_call { MEMORY_BRK = 1, MEMORY_MMAP = 2, MEMORY_MUNMAP = 3, MEMORY_MREMAP = 4 };

/* ---- shares: what one user has of what there is little of (bpf/shares.bpf.h) ---- */

#define SHARES 1024
#define SHARE_WORDS 17
#define SHARE_OF_CGROUP (1ULL << 63) /* in an owner: a cgroup's id, for it is root's; else a real uid */

enum share_kind { SHARE_OTHERS = 0, SHARE_DEATHS = 1, SHARE_KINDS };

/* What she has in the ring buffer: newer, put in since its end was at until; and older, in the time before. */
struct ring_share {
    __u64 until;
    __u64 newer, older;
};

struct user_share {
    __u64 owner; /* 0: nobody's */
    struct ring_share ring[SHARE_KINDS];
    __u64 second_ns; /* in the second since then, the last in which she asked for anything: */
    __u32 events, questions, captures, renames;
    __u32 slots, processes, kept;         /* entries of those maps that are hers */
    __u32 signals;                        /* in that second, too */
    __u64 refused_events, refused_deaths; /* what belongs to deaths: more than one event each */
    __u64 refused_slots, refused_processes;
    __u32 segments; /* of map "segments", charged to her */
    __u32 requests; /* of map "io_requests" */
};

/* ---- losses: one counter a place, summed over CPUs (map "losses") --------- */

enum loss_place {
    LOSS_SLOT = 0,      /* no free slot: a thread is not recorded */
    LOSS_TID_RANGE,     /* tid beyond the slot table */
    LOSS_PROCESS_ENTRY, /* map "processes" has no room for another one that lives */
    LOSS_DEATH_EVENT,   /* ring buffer full: death_event */
    LOSS_THREAD_EVENT,  /* ring buffer full: thread_event */
    LOSS_THREAD_STACK,  /* ring buffer full: stack left out */
    LOSS_GONE_EVENT,
    LOSS_WATCH_EVENT,
    LOSS_PATH_CUT,
    LOSS_PATH_FAULT,
    LOSS_FREE_SLOT, /* free list refused a slot: it is lost until restart */
    LOSS_SCRATCH,   /* per-CPU scratch missing: cannot happen, counted all the same */
    LOSS_TXG_SYNC,  /* more than TXG_SYNCS in flight */
    LOSS_TXG_EVENT, /* ring buffer full: txg_event */
    LOSS_TRIGGER,   /* ring buffer full: a rule's condition was met and nobody knows */
    LOSS_SNAPSHOT,  /* ring buffer full: the process of a trigger */
    LOSS_IN_FLIGHT, /* a reclaim or block request in flight that found no room */
    LOSS_MAPS,      /* ring buffer full: some of the mappings */
    LOSS_POINTERS,  /* ring buffer full: what the stack points at */
    LOSS_DEATH,     /* a process that died without an entry in map "processes" */
    LOSS_RETURNS,   /* ring buffer full: where a thread's functions return to, whose returns are probed */
    LOSS_SEGMENT,   /* no segment for a thread's first calls */
    LOSS_KEPT,      /* … and no room in kept_deaths either: who died is known by its id alone */
    LOSS_REQUEST,   /* a request of io_uring for which map "io_requests" had no place, or whose end nobody recorded */
    LOSS_TALLY,     /* a fact whose place was busy: it is not counted (bpf/tallies.h) */
    LOSS_PLACES
};

/* ---- latency: calls of probed functions that are in flight ---------------- */

/* The attach cookie of a probe's programs, and what frames and events name it by, is its id: its index in the maps
 * below, and above that a number no other probe ever has.  So a frame of a probe that is gone is not taken for one of
 * the probe that has its index now. */
#define PROBES_MAX 256
#define PROBE_SERIALS (1u << 24)
#define NO_PROBE (~0u)
#define EXIT_PROBE (~1u) /* the id under which exceptions, longjmps and the like are counted, behind all probes */
#define PROBE_INDEX(id) ((id) == NO_PROBE ? PROBES_MAX + 1 : (id) == EXIT_PROBE ? PROBES_MAX : (id) % PROBES_MAX)
#define LEAVE_AT_RET (1ULL << 32)     /* in the cookie of a leave: it stands at a ret, not behind it */
#define KEEP_RETURN (1ULL << 33)      /* … of enter_call: read the return address, which nothing else preserves */
#define BY_STACK_POINTER (1ULL << 34) /* … of keyed calls: no goroutine, the stack pointer alone is the key */
#define OF_PAIR (1ULL << 35)          /* … of keyed calls: the two ends have no common stack pointer */
#define CALL_DEPTH 8                  /* frames kept of each kind; calls nested deeper are counted, not timed */

/* One call in flight. */
struct call_frame {
    __u64 start_ns;
    __u64 sp;                 /* user stack pointer at the probe */
    __u64 args[SYSCALL_ARGS]; /* di si dx cx r8 r9 there: the arguments, where the probe is a function's entry */
    __u64 syscalls;           /* thread_slot.syscalls: the thread's later calls lie within this one */
    __u64 exec_ns;            /* task->se.sum_exec_runtime, which lags up to a tick … */
    __u64 exec_start_ns;  /* … behind: se.exec_start says when it was brought up to date (the scheduler's clock) */
    __u64 run_delay_ns;   /* task->sched_info.run_delay: runnable, but waiting for a CPU */
    __u64 return_address; /* at KEEP_RETURN, else 0 */
    __u32 probe;
    __u32 above; /* pairs: enters of this probe after this one for which no frame was free.
                    Functions: low half of the probe's address, the same for all names of one function */
};

/* Map "keyed_calls": calls in flight of code that does not stay on one thread's stack.  A goroutine is
 * its g and how deep on its stack (which moves, but keeps what is below its top); elsewhere the stack
 * pointer, of which a process has no two at one time. */
struct keyed_call_key {
    __u64 process_start_boot_ns;
    __u64 goroutine; /* address of its g; 0: BY_STACK_POINTER */
    __u64 place;     /* bytes from the stack's top, the stack pointer, or of a pair 0 */
    __u32 tgid;
    __u32 probe;
};

struct keyed_call {
    struct call_frame frame;
    __u64 stack_low; /* of the goroutine at the entry */
};
#define KEYED_CALLS 16384

/* Map "calls": one per slot, index as in "threads"; written only by the slot's thread.
 * `calls` is a stack: frame[0 .. depth) are functions not yet returned, outermost first.
 * `pairs` is a set: bit i of pairs_used says that pair[i] waits for its leave.
 * sequence is odd while frames are being written: copy, then look whether it is even and
 * unchanged.  A frame leaves without a step of sequence: the copy is of the instant before.
 * All of it is void unless generation is that of the thread_slot. */
struct thread_calls {
    __u64 sequence;
    __u64 generation;
    __u32 depth;
    __u32 pairs_used;
    __u32 listed;          /* 1: this slot's bit in map "call_slots" has been set for this generation */
    __u32 chosen;          /* the kernel side's own … */
    __u32 on_signal_stack; /* … 1: a function's frame was put there, and may still be */
    __u32 pad0;
    __u64 pad[3];
    struct call_frame frame[CALL_DEPTH];
    struct call_frame pair[CALL_DEPTH];
};

/* Map "probe_settings", by index of the probe. */
struct probe_setting {
    __u64 threshold_ns;    /* a call that took at least this long is reported when it is over; ~0: never */
    __u64 capture_gap_ns;  /* registers and stack are captured at most this often; between, only the event is sent */
    __u64 last_capture_ns; /* written by the kernel side */
    __u64 since_ns;        /* calls that began earlier are not reported: the probe was off in between */
    __u32 id;              /* whose settings these are */
    __u32 pad;
    __u64 dump; /* bit + 1 of the condition by which a slow call may dump core at its return, 0: none; and the
                   generation of rules in the upper half: read in one step, for they change together */
};

/* Map "probe_counts", per CPU, by index of the probe. */
struct probe_count {
    __u64 calls;      /* entered, of threads that are recorded */
    __u64 missed;     /* return never seen: longjmp, exception, exit or exec within the call */
    __u64 left;       /* of these: seen to be left by an exception or a longjmp */
    __u64 uncertain;  /* not told: that it was this call that took so long is not proven */
    __u64 overflow;   /* not timed: CALL_DEPTH calls were in flight */
    __u64 unmatched;  /* returns without an entry: entered before the probe was there, overflowed, or forked within */
    __u64 unrecorded; /* not timed: the thread is not watched, or has no slot */
    __u64 unsent;     /* slow, but the ring buffer was full */
};

/* The probed call is over.  In the thread's own context. */
struct latency_event {
    struct event_header h;
    __u32 probe;
    __u32 slot;
    __u64 generation;
    __u64 start_ns;
    __u64 elapsed_ns;
    __u64 args[SYSCALL_ARGS];
    __u64 ret;                             /* rax at the return; of a pair: at its leave, meaningless */
    __u64 syscalls_before, syscalls_after; /* thread_slot.syscalls at entry and now */
    __u64 running_ns;                      /* elapsed = running + runnable + blocked */
    __u64 runnable_ns;
    __u64 blocked_ns;
    __u32 split;    /* 1: the three above are known; 0: kernel without CONFIG_SCHED_INFO, runnable counts as blocked */
    __u32 captured; /* EVENT_SNAPSHOT and EVENT_THREAD of this thread follow */
    __u32 depth;    /* calls in flight around this one */
    __u16 dumped;   /* signal number already sent to it in its own context; 0: none */
    __u16 dump_bit; /* … by the condition with this bit */
    __u32 rules_generation; /* that bit's, and that of the threshold it was measured by */
    __u32 keyed;            /* 1: may have been in several threads; what the thread did meanwhile is not the call's */
    __u32 pad;
};

EVENT_ASSERT(sizeof(struct syscall_record) == 80);
EVENT_ASSERT(sizeof(struct memory_record) == 64);
EVENT_ASSERT(sizeof(struct thread_slot) == 448);
EVENT_ASSERT(sizeof(struct call_segment) == SEGMENT_BYTES);
EVENT_ASSERT(sizeof(struct thread_side) == 16 * 64 + 1024 + 8 + 128 + 8);
EVENT_ASSERT(sizeof(struct signal_record) == 80);
EVENT_ASSERT(sizeof(struct lineage_record) == 40);
EVENT_ASSERT(sizeof(struct event_header) == 56);
EVENT_ASSERT(sizeof(struct vma_record) == 112);
EVENT_ASSERT(sizeof(struct memory_window) == 272);
EVENT_ASSERT(sizeof(struct maps_entry) == 48);
EVENT_ASSERT(sizeof(struct maps_event) == 72 + MAPS_NAMES_LEN + MAPS_ENTRIES * 48);
EVENT_ASSERT(sizeof(struct module_event) == 56 + 40);
EVENT_ASSERT(sizeof(struct pointers_event) == 64 + POINTER_WINDOWS * 272);
EVENT_ASSERT(sizeof(struct returns_event) == 72 + PENDING_RETURNS * 16);
EVENT_ASSERT(sizeof(struct user_registers) == 192);
EVENT_ASSERT(sizeof(struct process_entry) < 4096);
EVENT_ASSERT(sizeof(struct watch_key) == 64);
EVENT_ASSERT(sizeof(struct permit) == 112);
EVENT_ASSERT(sizeof(struct call_frame) == 112);
EVENT_ASSERT(sizeof(struct keyed_call_key) == 32);
EVENT_ASSERT(sizeof(struct keyed_call) == 120);
EVENT_ASSERT(sizeof(struct thread_calls) == 64 + 2 * CALL_DEPTH * 112);
EVENT_ASSERT(sizeof(struct probe_setting) == 48);
EVENT_ASSERT(sizeof(struct probe_count) == 64);
EVENT_ASSERT(sizeof(struct latency_event) == 216);
EVENT_ASSERT(sizeof(struct watch_decision) == 16);
EVENT_ASSERT(sizeof(struct txg_sync) == 288);
EVENT_ASSERT(sizeof(struct txg_event) == 336);
EVENT_ASSERT(sizeof(struct kept_death) < 3900); /* with its key and head within a page */
EVENT_ASSERT(sizeof(struct user_share) == 8 * SHARE_WORDS);
EVENT_ASSERT(sizeof(struct trigger_head) == 160);
EVENT_ASSERT(sizeof(struct signal_trigger) == 240);
EVENT_ASSERT(sizeof(struct tracepoint_rules) == 32 + RULE_BITS);
EVENT_ASSERT(sizeof(struct own_key) == 16);
EVENT_ASSERT(sizeof(struct filter_clause) == 40);
EVENT_ASSERT(sizeof(struct condition_settings) == 96 + FILTER_CLAUSES * 40);

#ifdef __cplusplus
} // namespace incident::bpf
#endif
#endif
