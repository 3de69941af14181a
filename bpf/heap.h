/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
 *
 * What the heap recorder's kernel side (heap.bpf.c), the daemon and capture/ agree on.
 * Included as event.h is, and by the same rules; times are CLOCK_MONOTONIC.
 *
 * Each recorded process has a slot, 0 .. HEAP_PROCESSES - 1: its account in map
 * "heap_accounts", and three maps of its own below "heap_live", "heap_stacks" and
 * "heap_history".  The slot's number is in the attach cookie of its probes.
 */
#ifndef INCIDENT_BPF_HEAP_H
#define INCIDENT_BPF_HEAP_H

#include "bpf/event.h"

#ifdef __cplusplus
namespace incident::bpf
{
#endif

#define HEAP_PROCESSES 64
#define HEAP_SLICE 512  /* bytes of user stack that tell one call stack from another, and are kept of each */
#define HEAP_RANGES 3   /* address ranges in which return addresses are looked for */
#define HEAP_CLASSES 48 /* of sizes: class 0 is size 0, class c > 0 is 2^(c-1) .. 2^c - 1, the last all above */
#define HEAP_EPOCHS 16  /* epochs whose beginnings are remembered; a window is made of those */

/* Which function it was; by what its arguments mean. */
enum heap_function {
    HEAP_MALLOC = 1,     /* (size), also valloc, pvalloc */
    HEAP_CALLOC,         /* (count, size) */
    HEAP_REALLOC,        /* (pointer, size) */
    HEAP_REALLOCARRAY,   /* (pointer, count, size) */
    HEAP_ALIGNED,        /* (alignment, size): aligned_alloc, memalign */
    HEAP_POSIX_MEMALIGN, /* (pointer *, alignment, size), returns 0 or an error */
    HEAP_NEW,            /* (size): operator new, of allocators that do not go through malloc for it */
    HEAP_MALLOCX,        /* (size, flags), jemalloc's */
    HEAP_RALLOCX,        /* (pointer, size, flags): never frees the pointer where it fails */
    HEAP_XALLOCX,        /* (pointer, size, extra, flags): in place; returns the size it now has */
    HEAP_FREE,           /* (pointer): free, cfree, dallocx, sdallocx … */
    HEAP_DELETE,         /* (pointer): operator delete, of such allocators */
    HEAP_FUNCTIONS
};

/* Attach cookie: slot | function << 8 | site << 16 | HEAP_LEAVE_AT_RET. site tells the places probed in a process
 * from one another. */
#define HEAP_COOKIE_FUNCTION_SHIFT 8
#define HEAP_COOKIE_SITE_SHIFT 16
#define HEAP_LEAVE_AT_RET (1ULL << 32) /* the leaving probe stands at a ret, not behind it; in both cookies */

enum heap_kind { HEAP_ALLOCATED = 1, HEAP_FREED = 2 };

enum heap_flags {
    HEAP_UNKNOWN =
        1 << 0, /* freed: no allocation of that address was known (older than the recording, lost, or freed twice) */
    HEAP_UNLISTED = 1 << 1, /* allocated: there was no room to remember it as live */
    HEAP_REUSED = 1 << 2,   /* allocated at an address whose free was not seen: that one is taken as freed */
    HEAP_IN_PLACE = 1 << 3, /* both records of a realloc that stayed where it was */
};

/* One allocation or one free.  A realloc is a free (of the time of its call) and an allocation (of its
 * return).  t_ns orders them, not their place: a realloc's free is written when it returns.
 * Element i & (length - 1) of the process's "heap_history". */
struct heap_record {
    __u64 t_ns;
    __u64 address;
    __u64 size;  /* of a free: what was known of the allocation, 0 unknown */
    __u64 stack; /* key of "heap_stacks"; 0: none was kept */
    __u32 tid;
    __u8 kind;     /* enum heap_kind */
    __u8 function; /* enum heap_function */
    __u8 flags;    /* enum heap_flags */
    __u8 pad;
    __u64 seq; /* written last; equals its index + 1 when the record is whole */
};

/* Value of "heap_live", keyed by address: an allocation not freed. */
struct heap_allocation {
    __u64 size;
    __u64 stack;
    __u64 t_ns;
    __u32 tid;
    __u8 function;
    __u8 pad[3];
};

struct heap_sums {
    __u64 allocations, allocated_bytes;
    __u64 frees, freed_bytes; /* of a call stack: of what it allocated, whoever freed it */
};

/* What the sums were when an epoch began in which something happened. */
struct heap_checkpoint {
    __u64 epoch; /* 0: unused */
    struct heap_sums sums;
};

/* Value of "heap_stacks", keyed by a hash of the return addresses in the slice. */
struct heap_stack {
    struct heap_sums sums;
    __u64 epoch; /* latest with a checkpoint */
    __u64 first_ns;
    __u64 ip, sp, bp, bx, r12, r13, r14,
        r15;        /* at the probe, which stands at the function's entry: *sp is where it returns to */
    __u32 length;   /* bytes of the slice */
    __u32 function; /* enum heap_function of the first call */
    struct heap_checkpoint checkpoint[HEAP_EPOCHS];
    __u8 slice[HEAP_SLICE]; /* the stack from sp upwards, as it was at the first such call */
};

struct heap_class {
    __u64 allocations, bytes;
};

/* Map "heap_accounts", by slot.  The first part is written by the daemon before it attaches. */
struct heap_account {
    __u64 mm;           /* kernel address of the address space it is about; 0: that of the first call seen */
    __u64 epoch_shift;  /* an epoch lasts 2^shift ns: t_ns >> shift is its number */
    __u64 history_mask; /* records of the history - 1; ~0: level "sizes", no history */
    struct {
        __u64 start, length;
    } range[HEAP_RANGES]; /* where code is mapped; unused: length 0 */

    __u64 history_next; /* records written so far */
    __u64 epoch;        /* latest with a checkpoint */
    /* allocated_bytes - freed_bytes - reused_bytes = bytes in "heap_live" + lost_bytes; so the numbers */
    struct heap_sums sums;
    __u64 reused, reused_bytes; /* taken as freed, for their address was given out again */
    __u64 lost, lost_bytes;     /* allocations that found "heap_live" full */
    __u64 unknown_frees;        /* of addresses not in "heap_live" */
    __u64 failed;               /* allocations that returned NULL */
    __u64 unfinished;           /* entered and never seen to return */
    __u64 unentered;            /* returned and not seen to be entered */
    __u64 no_frame;             /* not recorded: no room for the thread's frame */
    __u64 no_stack;             /* recorded without stack: "heap_stacks" full, or the stack not readable */
    __u64 strangers;            /* calls in another address space (exec) */
    struct heap_checkpoint checkpoint[HEAP_EPOCHS];
    struct heap_class sizes[HEAP_CLASSES];
    struct heap_class sizes_then[HEAP_EPOCHS][HEAP_CLASSES]; /* as of the checkpoint with that index */
};

EVENT_ASSERT(sizeof(struct heap_record) == 48);
EVENT_ASSERT(sizeof(struct heap_allocation) == 32);
EVENT_ASSERT(sizeof(struct heap_sums) == 32);
EVENT_ASSERT(sizeof(struct heap_checkpoint) == 40);
EVENT_ASSERT(sizeof(struct heap_stack) == 32 + 16 + 64 + 8 + HEAP_EPOCHS * 40 + HEAP_SLICE);

#ifdef __cplusplus
} // namespace incident::bpf
#endif
#endif
