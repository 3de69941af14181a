/* SPDX-License-Identifier: GPL-2.0-only
 * Puts facts into the map "tallies" (bpf/tallies.h). */
#pragma once

#include "bpf/branchless.bpf.h"
#include "bpf/shares.bpf.h"
#include "bpf/tallies.h"

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct tally_set);
} tallies __weak SEC(".maps");

/* In the map.  Not 0, or the verifier would not walk what follows where nobody sets it. */
const volatile __u32 tally_sets __weak = 8;
/* Random, for who can make up names must not be able to make up two with the same hash. */
const volatile __u64 tally_key __weak = 1;

/* A fact, met now. */
struct tally_ask {
    __u64 process_start_boot_ns;
    __u64 name_at; /* kernel address; 0: it has none */
    __u64 hash;    /* of the name */
    __u64 value;
    __s64 ret;
    __u64 took_ns; /* 0: not known */
    __u64 now_ns;
    __u32 tgid, tid, share;
    __s32 nr, code;
    __u16 length; /* of the name, bytes */
    __u8 kind, flags;
};

#define TALLY_TRIES 16
#define TALLY_AGE_SHIFT 10               /* ages are compared by the microsecond */
#define TALLY_AGE_MAX ((1ULL << 32) - 1) /* beyond the windows: 73 minutes */
#define TALLY_WEIGHT_FREE 0xffff

/* What a difference in the word changes depends on the key: the shift brings its high bits down to where the
 * multiplication spreads them. */
static __always_inline __u64 mix(__u64 hash, __u64 word)
{
    word ^= tally_key;
    word = (word ^ word >> 32) * 0x9e3779b97f4a7c15ULL;
    hash = (hash ^ word ^ word >> 29) * 0xbf58476d1ce4e5b9ULL;
    return hash ^ hash >> 31;
}

static __always_inline int hold_entry(struct tally *entry)
{
    for (__u32 i = 0; i < TALLY_TRIES; i++) {
        __u32 seq = *(volatile __u32 *)&entry->seq;
        if (!(seq & 1) && __sync_val_compare_and_swap(&entry->seq, seq, seq + 1) == seq)
            return 1;
    }
    return 0;
}

#define STORES_STAY_BEFORE() asm volatile("" ::: "memory")

/* Every store of before is seen by whoever sees this one: x86 keeps stores in order. */
static __always_inline void let_entry_go(struct tally *entry)
{
    STORES_STAY_BEFORE();
    *(volatile __u32 *)&entry->seq = entry->seq + 1;
}

static __always_inline void count_in_window(struct tally_window *window, __u64 now_ns, __u32 shift)
{
    __u32 epoch = now_ns >> shift, passed = epoch - window->epoch;
    if ((__s32)passed > 0) { /* another thread may have been a little later, and first */
        window->epoch = epoch;
        if (passed > TALLY_EPOCHS)
            passed = TALLY_EPOCHS;
        for (__u32 i = 0; i < TALLY_EPOCHS; i++)
            if (i < passed)
                window->met[(epoch - i) % TALLY_EPOCHS] = 0;
    }
    window->met[window->epoch % TALLY_EPOCHS] += 1;
}

#define ERRNO_MAX 4095    /* MAX_ERRNO (include/linux/err.h) */
#define FIRST_RESTART 512 /* ERESTARTSYS … ERESTART_RESTARTBLOCK (include/linux/errno.h) */
#define LAST_RESTART 516
#define NOW_IN_PROGRESS 115 /* EINPROGRESS */

/* Not what is begun, nor what a signal has interrupted: it is done once more, or fails with EINTR. */
static __always_inline int has_failed(__s64 ret)
{
    __u64 error = -ret;
    return error - 1 < ERRNO_MAX && error - FIRST_RESTART > LAST_RESTART - FIRST_RESTART && error != NOW_IN_PROGRESS;
}

/* Writes into an entry that is held. */
static __always_inline void note_met(struct tally *entry, const struct tally_ask *ask)
{
    entry->met += 1;
    if (has_failed(ask->ret))
        entry->failed += 1;
    if (ask->took_ns > entry->longest_ns)
        entry->longest_ns = ask->took_ns;
    count_in_window(&entry->minute, ask->now_ns, TALLY_MINUTE_SHIFT);
    count_in_window(&entry->hour, ask->now_ns, TALLY_HOUR_SHIFT);
    if (ask->now_ns < entry->last_ns)
        return;
    entry->last_ns = ask->now_ns;
    entry->ret = ask->ret;
    entry->value = ask->value;
    entry->tid = ask->tid;
}

static __always_inline int is_there(const struct tally_set *set, __u32 i, __u64 hash, __u32 tgid)
{
    return *(volatile __u64 *)&set->hash[i] == hash && set->tgid[i] == tgid;
}

/* Which entry it is, or -1: the set does not have it.  Without a branch: for each entry that it may be, the verifier
 * would walk what follows. */
static __always_inline __s32 find_fact(const struct tally_set *set, __u64 hash, __u32 tgid)
{
    __s64 found = 0;
    for (__u32 i = 0; i < TALLY_WAYS; i++) {
        __u64 differs = (*(volatile __u64 *)&set->hash[i] ^ hash) | (set->tgid[i] ^ tgid);
        OPAQUE(differs);
        found |= (1 - ((differs | (0 - differs)) >> 63)) * (i + 1);
    }
    return found - 1;
}

struct tally_choice {
    const struct tally_set *set;
    const struct tally_ask *ask;
    __u64 best; /* weight, age and index of the best so far, from the highest bits down */
};

/* How much of the set belongs to whom the entry with that index belongs to: user, and then process.  Of one user's
 * entries those go first that nobody has met for long, of processes that may be gone. */
static __always_inline __u64 weight_of(const struct tally_set *set, __u32 i, const struct tally_ask *ask, __u64 is_old)
{
    __u32 tgid = set->tgid[i], share = set->share[i];
    __u64 users = is_equal(ask->share, share), own = is_equal(ask->tgid, tgid); /* the new one counts as well */
    for (__u32 j = 0; j < TALLY_WAYS; j++) {
        users += is_equal(set->share[j], share);
        own += is_equal(set->tgid[j], tgid);
    }
    own |= (0 - is_old) & (TALLY_WAYS + 1);
    return users * (2 * TALLY_WAYS) + own;
}

static long weigh_entry(__u32 i, struct tally_choice *choice)
{
    const struct tally_set *set = choice->set;
    i &= TALLY_WAYS - 1;
    __u64 age = choice->ask->now_ns - set->entry[i].last_ns;
    age &= (age >> 63) - 1; /* 0 where it has been met since, by a thread that was faster */
    age >>= TALLY_AGE_SHIFT;
    if (age > TALLY_AGE_MAX)
        age = TALLY_AGE_MAX;
    __u64 weight = weight_of(set, i, choice->ask, age == TALLY_AGE_MAX);
    if (!set->hash[i])
        weight = TALLY_WEIGHT_FREE;
    __u64 value = weight << 48 | age << 8 | i;
    if (value > choice->best)
        choice->best = value;
    return 0;
}

/* The entry to be written over.  Whose there are most gives way, of users and then of their processes, and of those
 * entries the one met longest ago; before all, a free one. */
static __always_inline __u32 choose_entry(const struct tally_set *set, const struct tally_ask *ask)
{
    struct tally_choice choice = {.set = set, .ask = ask, .best = 0};
    bpf_loop(TALLY_WAYS, weigh_entry, &choice, 0); /* written out, the verifier would walk each combination */
    return choice.best & (TALLY_WAYS - 1);
}

static __noinline int count_forgotten(__u32 tgid, const struct tally *entry)
{
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (process && process->start_boot_ns == entry->process_start_boot_ns)
        __sync_fetch_and_add(&process->tallies_forgotten, 1);
    return 0;
}

static __always_inline void copy_name(struct tally *entry, const struct tally_ask *ask)
{
    __u32 length = ask->length;
    __u64 from = ask->name_at;
    entry->flags = ask->flags;
    if (length > TALLY_NAME) { /* what comes last tells more */
        from += length - TALLY_NAME;
        length = TALLY_NAME;
        entry->flags |= TALLY_NAME_CUT;
    }
    entry->length = ask->length;
    if (length && bpf_probe_read_kernel(entry->name, length, (void *)from))
        entry->length = 0;
}

/* Begins a fact in the set, which is held. */
static __noinline int begin_fact(struct tally_set *set, const struct tally_ask *ask, __u64 hash)
{
    __u32 i = choose_entry(set, ask);
    struct tally *entry = &set->entry[i];
    if (!hold_entry(entry))
        return 0;
    if (set->hash[i])
        count_forgotten(set->tgid[i], entry);
    set->hash[i] = hash;
    set->tgid[i] = ask->tgid;
    set->share[i] = ask->share;
    entry->met = entry->failed = entry->longest_ns = 0;
    entry->process_start_boot_ns = ask->process_start_boot_ns;
    entry->tgid = ask->tgid;
    entry->first_ns = ask->now_ns;
    entry->last_ns = 0;
    entry->nr = ask->nr;
    entry->code = ask->code;
    entry->kind = ask->kind;
    __builtin_memset(&entry->minute, 0, sizeof(entry->minute));
    __builtin_memset(&entry->hour, 0, sizeof(entry->hour));
    copy_name(entry, ask);
    note_met(entry, ask);
    let_entry_go(entry);
    return 1;
}

static __always_inline int hold_set(struct tally_set *set)
{
    for (__u32 i = 0; i < TALLY_TRIES; i++)
        if (!*(volatile __u32 *)&set->lock && !__sync_val_compare_and_swap(&set->lock, 0, 1))
            return 1;
    return 0;
}

/* Counts the fact as met, and remembers it if it is a new one.  The region is that of its kind.  Not static: then the
 * verifier walks it once, and not at each of its calls. */
__weak int tally_in(struct tally_ask *ask, __u32 first_eighth, __u32 eighths)
{
    if (!ask)
        return 0;
    __u64 hash = mix(ask->hash, ask->process_start_boot_ns ^ (__u64)ask->tgid << 40);
    hash = mix(hash, (__u64)(__u32)ask->nr << 32 | (__u32)ask->code);
    hash = mix(hash, (__u64)ask->length << 16 | ask->kind << 8 | (ask->flags & (TALLY_COMPAT | TALLY_REQUEST)));
    if (!hash)
        hash = 1;
    __u32 index = tally_sets * first_eighth / 8 + ((hash >> 32) * (tally_sets * eighths / 8) >> 32);
    struct tally_set *set = bpf_map_lookup_elem(&tallies, &index);
    if (!set)
        return 0;
    __s32 i = find_fact(set, hash, ask->tgid);
    if (i < 0) {
        int begun = 0;
        if (hold_set(set)) {
            i = find_fact(set, hash, ask->tgid);
            if (i < 0)
                begun = begin_fact(set, ask, hash);
            STORES_STAY_BEFORE();
            *(volatile __u32 *)&set->lock = 0;
        }
        if (begun)
            return 0;
    }
    if (i >= 0) {
        struct tally *entry = &set->entry[i & (TALLY_WAYS - 1)];
        if (hold_entry(entry)) {
            int there = is_there(set, i & (TALLY_WAYS - 1), hash, ask->tgid);
            if (there)
                note_met(entry, ask);
            let_entry_go(entry);
            if (there)
                return 0;
        }
    }
    count_loss(LOSS_TALLY);
    return 0;
}

/* Of the bytes from there on, which are in a map that has room for so many words. */
static __always_inline __u64 hash_name(const char *bytes, __u32 length, __u32 words)
{
    __u64 hash = 0;
    for (__u32 i = 0; i < words; i++) {
        if (length <= i * 8)
            break;
        __u64 word = *(const __u64 *)(bytes + i * 8);
        if (length < i * 8 + 8)
            word &= ~0ULL >> (64 - 8 * (length & 7));
        hash = mix(hash, word);
    }
    return hash;
}

#define PATH_WORDS (PATH_HEAD_LEN / 8)

struct path_hash {
    const char *path; /* in a map, with room for PATH_HEAD_LEN */
    __u64 hash;
};

static long hash_word(__u32 i, struct path_hash *so_far)
{
    so_far->hash = mix(so_far->hash, *(const __u64 *)(so_far->path + 8 * (i & (PATH_WORDS - 1))));
    return 0;
}

/* The same of a path, by a loop that the verifier need not walk: that of Linux 6.1 gives up. */
static __always_inline __u64 hash_path(const char *path, __u32 length)
{
    struct path_hash hash = {.path = path, .hash = 0};
    __u32 rest = length & 7, words = length / 8 & (PATH_WORDS - 1);
    bpf_loop(words, hash_word, &hash, 0);
    if (!rest)
        return hash.hash;
    __u64 last = *(const __u64 *)(path + 8 * words);
    return mix(hash.hash, last & ~0ULL >> (64 - 8 * rest));
}

/* In quarters of a power of two: 4 × log2, and which quarter. */
static __always_inline __u32 level_of(__u64 number)
{
    __u32 log = 0;
    for (__u32 step = 32; step; step /= 2)
        if (number >> log >> step)
            log += step;
    return TALLY_LEVELS * log + (log >= 2 ? (number >> (log - 2)) & 3 : 0);
}

/* Of a call that has lasted TALLY_SLOW_NS or more: by which power of ten. */
static __always_inline __u32 slow_step(__u64 took_ns)
{
    __u64 step_ns = 10 * TALLY_SLOW_NS;
    __u32 step = 0;
    for (__u32 i = 1; i < TALLY_SLOW_STEPS && took_ns >= step_ns; i++, step_ns *= 10)
        step = i;
    return step;
}

/* A fact about a process that is none of its calls. */
static __always_inline void begin_process_ask(struct tally_ask *ask, const struct process_entry *process, __u32 kind,
                                              __u32 tid)
{
    __builtin_memset(ask, 0, sizeof(*ask));
    ask->process_start_boot_ns = process->start_boot_ns;
    ask->now_ns = bpf_ktime_get_ns();
    ask->tgid = process->tgid;
    ask->tid = tid;
    ask->share = process->share;
    ask->kind = kind;
}

/* name: in a map, of so many bytes at most, a multiple of 8; behind its NUL there may be anything. */
static __always_inline void set_name(struct tally_ask *ask, const char *name, __u32 size)
{
    __u32 length = 0;
    for (; length < size && name[length]; length++)
        ;
    ask->length = length;
    ask->name_at = (__u64)name;
    ask->hash = hash_name(name, length, size / 8);
}

/* … with a name as tasks have, or without one (0). */
static __noinline int tally_named(const struct process_entry *process, const char *comm, __u32 kind, __u32 tid,
                                  __u64 code_and_value)
{
    struct tally_ask ask;
    begin_process_ask(&ask, process, kind, tid);
    ask.code = code_and_value >> 32;
    ask.value = (__u32)code_and_value;
    if (comm)
        set_name(&ask, comm, COMM_LEN);
    return tally_in(&ask, TALLY_REGION_NAMED);
}

#define CODE_AND_VALUE(code, value) ((__u64)(__u32)(code) << 32 | (__u32)(value))
