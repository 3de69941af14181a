/* SPDX-License-Identifier: GPL-2.0-only
 * Maps and settings that every object of the recorder shares: declared weak, merged
 * by the static linker (bpftool gen object).  Sizes with 1 are set by the daemon
 * before load. */
#pragma once

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/event.h"

/* tid → slot + 1; 0: never seen; with the top bit: see SLOT_* below. An array, because
 * its look-up is inlined.  Every syscall of the machine asks callers.bpf.h first. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} slot_of __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct thread_slot);
} threads __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct call_segment);
} segments __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_QUEUE);
    __uint(max_entries, 1);
    __type(value, __u32);
} free_segments __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct thread_side);
} sides __weak SEC(".maps");

/* First in, first out: the rings of the dead stay readable as long as possible. */
struct {
    __uint(type, BPF_MAP_TYPE_QUEUE);
    __uint(max_entries, 1);
    __type(value, __u32);
} free_slots __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct process_entry);
} processes __weak SEC(".maps");

/* Where a new process entry is made before it is put into the map whole: what is in the map may at any time be dropped,
 * and its memory become another process's entry.  More than one a CPU, for a program can be interrupted by another. */
#define PROCESS_DRAFTS 4
struct process_draft {
    __u32 taken;
    __u32 pad;
    struct process_entry entry; /* what is not set for every process stays 0 */
};
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, PROCESS_DRAFTS);
    __type(key, __u32);
    __type(value, struct process_draft);
} process_drafts __weak SEC(".maps");

/* The daemon's decisions whether processes are recorded.  The least recently used ones make room for new ones. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 16384);
    __type(key, struct watch_key);
    __type(value, struct watch_decision);
} watch_decisions __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, UNTIMED_MAX);
    __type(key, struct untimed_key);
    __type(value, __u32);
} untimed __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 4096);
} events __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, LOSS_PLACES);
    __type(key, __u32);
    __type(value, __u64);
} losses __weak SEC(".maps");

/* The processes that the kernel side may make dump core on its own, see dump.bpf.h. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32);
    __type(value, struct permit);
} permits __weak SEC(".maps");

/* What the kernel side tests of each condition, by generation and bit (CONDITION_INDEX). */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 2 * RULE_BITS);
    __type(key, __u32);
    __type(value, struct condition_settings);
} conditions __weak SEC(".maps");

/* The conditions about a tracepoint, by generation and the kernel's number of it: it has one program, for the kernel
 * refuses the same program twice (kernel/trace/bpf_trace.c, perf_event_attach_bpf_prog: EEXIST). */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 2048);
    __type(key, __u32);
    __type(value, struct tracepoint_rules);
} tracepoints __weak SEC(".maps");

/* What is still asked about a thread that has given its ring back: at sched_process_exit and behind it the memory is
 * gone, and with it what could tell whether rules are about it.  Least recently ended ones make room. */
struct ended_thread {
    __u64 start_boot_ns;
    __u64 rules;
    __u64 generation; /* of its slot */
    __u32 slot;
    __u32 rules_generation;
    struct watch_key key;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1024);
    __type(key, __u64); /* address of the task_struct */
    __type(value, struct ended_thread);
} ended_threads __weak SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 512);
    __type(key, struct own_key);
    __type(value, struct own_cost);
} own_costs __weak SEC(".maps");

/* Settings fixed at load: constants to the verifier and the JIT. */
const volatile __u32 segments_kept_back __weak = 1; /* of the pool: for threads that have fewer than OWN_SEGMENTS */
const volatile __u32 slots __weak = 1;
const volatile __u32 processes_max __weak = 1; /* entries of the living; the map has DYING_RESERVE more */
const volatile __u32 stack_pages_max __weak = 8;
const volatile __u32 syscall_class[2][SYSCALL_CLASSES] __weak = {};

const volatile __u32 casts_tasks __weak = 0; /* the kernel has bpf_rdonly_cast */

/* Settings that a reload changes; the daemon writes them through its mapping. */
__u32 entries_recorded __weak = 0; /* record_enter is attached: calls have durations */
__u32 watch_epoch __weak = 1;      /* the current generation of watch decisions, 1 .. 2^30 */
__u32 epoch_is_due __weak = 0;     /* it is to move on once a second is over */
__u64 fatal_signals __weak = 0;    /* bit n - 1: some rule wants signal n when it kills */
__u64 handled_signals __weak = 0;  /* … and when it does not */
__u32 oom_wanted __weak = 0;       /* some rule wants victims of the OOM killer */

/* The generation of rules in force.  What a bit means stands in the half of the arrays below, and of the map
 * "conditions", that the generation's parity names.  The daemon fills the other half and then moves the generation on,
 * and touches no half again before every program that may still read it has ended (Recorder::apply).  So a program
 * reads the generation once, and all that it looks at is of that one.  1 ..; 0: of none. */
__u32 rules_generation __weak = 0;
__u32 watch_all[2] __weak = {};    /* some rule has no match: no need to ask whether, */
__u32 ask_rules[2] __weak = {};    /* … but which rules, for some tested in the kernel have a match */
__u64 rules_of_all[2] __weak = {}; /* what to assume where nobody need be asked */
__u32 look_at_comm[2] __weak = {}; /* what rules tell processes apart by */
__u32 look_at_cgroup[2] __weak = {};
__u64 syscall_rules[2] __weak = {}; /* bits of the conditions of a kind */
__u64 exit_rules[2] __weak = {};
__u64 blocked_rules[2] __weak = {};
__u64 block_io_rules[2] __weak = {};
__u64 reclaim_rules[2] __weak = {};
__u64 tracepoint_rules[2] __weak = {};
__u64 signal_rules[2] __weak = {};   /* … about signals that do not kill */
__u64 told_rules[2] __weak = {};     /* their processes are told of when they start: latency, heaps */
__u64 payload_rules[2] __weak = {};  /* what their processes send and receive is kept, */
__u32 payload_bytes[2] __weak = {};  /* … up to so many bytes of a call */
__u64 dump_rules[2] __weak = {};     /* by which the kernel side may make a process dump core */
__u64 blocked_min_ns[2] __weak = {}; /* the least threshold of the blocked conditions */
__u32 blocked_idle[2] __weak = {};   /* some of them count idle waits too */
__u64 syscall_rules_of[2][2][SYSCALL_CLASSES] __weak = {}; /* [.][compat][nr & 511]: conditions about this call */

/* The daemon: nobody could write down what it dies of, and its sleeping threads would hold slots. */
__u32 own_tgid __weak = 0;
__u32 own_counted __weak = 0; /* run times are being counted: see own_cost.bpf.h */

/* Making processes dump core: see dump.bpf.h. */
__s32 dump_allowance __weak = 0;   /* signals that may still be sent within the hour, by whichever side and rule */
__u64 dump_until_ns __weak = 0;    /* until then what the daemon has seen of the host's core handling holds */
__u64 dump_space_bytes __weak = 0; /* free where cores go */
__u32 permit_round __weak = 0;     /* moves on when the host's core handling changes: permits of before are void */

__s32 capture_tokens __weak = 0; /* captures in a living thread's own context that are left; refilled every second */
__u64 recording_since_boot_ns __weak = 0;
__u32 process_entries __weak = 0; /* in the map "processes" */
__u32 slots_free __weak = 0;      /* how many the queue holds, near enough: spares a look into an empty one */

__s32 segments_free __weak = 0; /* the same of the pool of segments */

/* Values of slot_of above any slot: decided not to watch, or no slot was free, in
 * the generation of decisions in the low 30 bits. */
#define SLOT_IGNORED 0x80000000u
#define SLOT_REFUSED 0xc0000000u
#define SLOT_EPOCH 0x3fffffffu

/* What the kernel side tests of that condition. */
static __always_inline struct condition_settings *condition_of(__u32 generation, __u32 bit)
{
    __u32 index = CONDITION_INDEX(generation, bit & (RULE_BITS - 1));
    return bpf_map_lookup_elem(&conditions, &index);
}

/* The conditions about that thread, in that generation.  Of one that has decided in another its bits are the names of
 * other conditions: then all, as of a process that the daemon has yet to judge, which checks again what it gets. */
static __always_inline __u64 bits_of(const struct thread_slot *thread, __u32 generation)
{
    return thread->rules_generation == generation ? thread->rules : ~0ULL;
}

static __always_inline void count_loss(__u32 place)
{
    __u64 *count = bpf_map_lookup_elem(&losses, &place);
    if (count)
        __sync_fetch_and_add(count, 1); /* per CPU, but uprobe programs may be preempted */
}
