/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * A long memory of distinct facts: that a process has opened this path, talked to this peer, failed so in this call.
 * Each once, with how often, when first and when last; so no loop of reads washes it away.  Included as event.h is, and
 * by the same rules; times are CLOCK_MONOTONIC.
 *
 * Map "tallies" is a hash table of all processes together.  A fact has its place in one set of TALLY_WAYS, by a hash of
 * process, kind and what it is; kinds that may come in any number have sets of their own (TALLY_REGION).  In a set that
 * is full who has most of it gives way: of its entries the one that was met longest ago.  So one who makes up paths
 * washes away her own.  Who writes to a set or to an entry holds it for some nanoseconds (lock, seq); who cannot get it
 * counts the fact as lost (LOSS_TALLY).
 */
#ifndef INCIDENT_BPF_TALLIES_H
#define INCIDENT_BPF_TALLIES_H

#include "bpf/event.h"

#ifdef __cplusplus
namespace incident::bpf
{
#endif

#define TALLY_WAYS 16
#define TALLY_NAME 120
#define TALLY_EPOCHS 4            /* of each window: it covers three whole ones and the one that is on */
#define TALLY_MINUTE_SHIFT 34     /* an epoch of the minute lasts 2^34 ns: 17.2 s */
#define TALLY_HOUR_SHIFT 40       /* … and of the hour: 18.3 minutes */
#define TALLY_SLOW_NS 10000000ULL /* a call that lasts so long is slow … */
#define TALLY_SLOW_STEPS 4        /* … of step 0, and of the next from ten times that on */
#define TALLY_LEVELS 4            /* of memory, and of descriptors, between a power of two and the next */

enum tally_kind {
    TALLY_PATH = 1, /* a call that names a path.  name: the path; value: the flags of an open */
    TALLY_PEER,     /* connect, bind, accept, sendto …  name: struct sockaddr; value: the descriptor.  Of a peer that
                       has come by itself (accept, recvfrom, recvmsg) without the port; value: that port, and of
                       accept() above it the own one; of a local one the peer's process, 0: not known */
    TALLY_FAILURE,  /* a call that failed.  code: error number; value: its first argument.  What is only begun
                       (EINPROGRESS) or will be restarted has not failed */
    TALLY_SLOW,     /* a call that lasted long.  code: its step; value: its first argument */
    TALLY_THREAD,   /* a thread of the process has ended.  name: what it was called */
    TALLY_CHILD,    /* made a process.  name: what it is called at first */
    TALLY_CHILD_EXIT, /* a child has ended.  code: wait status; name: what it was called */
    TALLY_EXEC,       /* name: of the program, as given to execve */
    TALLY_SIGNAL, /* one was generated for it.  code: number; value: si_code; name: what the sender is called, where a
                     process has sent it */
    TALLY_MEMORY, /* resident memory at the return of a call that changed mappings, when it was for the first time
                     so much.  code: level; value: pages */
    TALLY_DESCRIPTORS, /* the number of a new one, so too.  code: level; value: the number */
    TALLY_KINDS
};

enum tally_flags {
    TALLY_COMPAT = 1, /* nr is of the 32-bit table */
    TALLY_IDLE = 2,   /* the call is one of those that wait for work */
    TALLY_NAME_CUT = 4,
    TALLY_REQUEST = 8, /* a request of io_uring: nr is its operation */
};

/* Two windows of a fact: how often in each of the last epochs.  [epoch % TALLY_EPOCHS]. */
struct tally_window {
    __u32 epoch; /* the latest in which it was met */
    __u32 met[TALLY_EPOCHS];
};

/* Whole iff `seq` is even, and the same before and after it was read. */
struct tally {
    __u64 met; /* how often */
    __u64 process_start_boot_ns;
    __u64 first_ns, last_ns; /* when it was met: of calls, when they returned */
    __u64 longest_ns;        /* of calls whose durations are known */
    __s64 ret;               /* of the last call */
    __u64 value;             /* of the last */
    __u64 failed;            /* how many of them failed */
    __u32 seq;
    __u32 tid; /* of the last */
    __u32 tgid;
    __s32 nr;
    __s32 code;
    __u16 length; /* of the name, which may be longer than what has room */
    __u8 kind, flags;
    struct tally_window minute, hour;
    char name[TALLY_NAME]; /* no NUL at its end; of one that is longer the end */
};

/* The heads stand in front, together: most of them are not what is looked for. */
struct tally_set {
    __u64 hash[TALLY_WAYS]; /* 0: free */
    __u32 tgid[TALLY_WAYS];
    __u32 share[TALLY_WAYS]; /* index into share_words of the user whose process it is */
    __u32 lock;              /* 1: somebody puts a fact in */
    __u32 pad;
    struct tally entry[TALLY_WAYS];
};

/* Which part of the sets belongs to a kind, in eighths: [first, first + eighths). */
#define TALLY_REGION_PATH 0, 4
#define TALLY_REGION_PEER 4, 2
#define TALLY_REGION_OTHER 6, 1
#define TALLY_REGION_NAMED 7, 1 /* by names that others may choose: of senders, of children */

EVENT_ASSERT(sizeof(struct tally) == 248);
EVENT_ASSERT(sizeof(struct tally_set) == 264 + TALLY_WAYS * 248);

#ifdef __cplusplus
} // namespace incident::bpf
#endif
#endif
