// SPDX-License-Identifier: GPL-2.0-only
// Allocations of one process's malloc family: counted by size and call stack, remembered while
// they live, and, at level "history", written down call by call.
//
// Only the outermost of nested calls counts, for its result is what the program gets: an allocator
// whose realloc calls malloc, or a library put in front of another one.  A freed address leaves
// "heap_live" before the allocator has it, and an allocated one enters it when the program gets it, so
// that another thread's allocation at the same address always comes between.
#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/heap.h"
#include "bpf/returns.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, HEAP_PROCESSES);
    __type(key, __u32);
    __type(value, struct heap_account);
} heap_accounts SEC(".maps");

/* The inner maps are made by the daemon for each process; these say only what they are like. */
struct live_map {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 1);
    __type(key, __u64);
    __type(value, struct heap_allocation);
} one_live SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, HEAP_PROCESSES);
    __type(key, __u32);
    __array(values, struct live_map);
} heap_live SEC(".maps");

struct stack_map {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 1);
    __type(key, __u64);
    __type(value, struct heap_stack);
} one_stacks SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, HEAP_PROCESSES);
    __type(key, __u32);
    __array(values, struct stack_map);
} heap_stacks SEC(".maps");

struct history_map {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct heap_record);
} one_history SEC(".maps");
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __uint(max_entries, HEAP_PROCESSES);
    __type(key, __u32);
    __array(values, struct history_map);
} heap_history SEC(".maps");

/* What a thread is in the middle of; and its room for a stack, for a program may be preempted. */
struct heap_thread {
    __u64 sp;                   /* of the call under way; 0: none */
    __u64 returns_to;           /* … where its leaving probe is no return probe */
    __u64 over_sp;              /* of the one that ended last */
    __u64 size;                 /* asked for */
    __u64 stack;                /* id */
    __u64 out;                  /* posix_memalign: where the result goes */
    __u64 old;                  /* realloc: the pointer given */
    __u64 old_ns;               /* … when */
    struct heap_allocation was; /* … and what stood there */
    __u32 slot;
    __u32 function;
    __u32 had_old; /* 1: `was` is what was taken out of "heap_live" */
    __u32 free_site;
    __u64 free_address; /* of its last free: what, the stack pointer and return address there */
    __u64 free_sp, free_returns_to;
    struct heap_stack fresh;
};

struct {
    __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, int);
    __type(value, struct heap_thread);
} heap_threads SEC(".maps");

#define COUNT(place, n) __sync_fetch_and_add(&(place), (n))
#define LOAD(place) (*(volatile typeof(place) *)&(place))
#define STORE(place, value) (*(volatile typeof(place) *)&(place) = (value))

/* ---- epochs ---------------------------------------------------------------- */

/* Whoever first does something in an epoch writes down what the sums were when it began.  What others do
 * at the same moment may be counted to either side of the boundary; it is never lost. */
static __always_inline int new_epoch(__u64 *latest, __u64 epoch)
{
    __u64 before = LOAD(*latest);
    return before < epoch && __sync_val_compare_and_swap(latest, before, epoch) == before;
}

static __always_inline void note_checkpoint(struct heap_checkpoint *to, __u64 epoch, const struct heap_sums *sums)
{
    STORE(to->epoch, 0);
    to->sums = *sums;
    barrier();
    STORE(to->epoch, epoch);
}

static __noinline int turn_epoch(struct heap_account *account, __u64 epoch)
{
    if (!account || !new_epoch(&account->epoch, epoch))
        return 0;
    __u32 index = epoch & (HEAP_EPOCHS - 1);
    note_checkpoint(&account->checkpoint[index], epoch, &account->sums);
    bpf_probe_read_kernel(account->sizes_then[index], sizeof(account->sizes), account->sizes);
    return 0;
}

static __always_inline void turn_stack_epoch(struct heap_stack *stack, __u64 epoch)
{
    if (new_epoch(&stack->epoch, epoch))
        note_checkpoint(&stack->checkpoint[epoch & (HEAP_EPOCHS - 1)], epoch, &stack->sums);
}

/* ---- call stacks ----------------------------------------------------------- */

static __always_inline void count_at(struct heap_stack *stack, __u64 size, __u64 epoch)
{
    turn_stack_epoch(stack, epoch);
    COUNT(stack->sums.allocations, 1);
    COUNT(stack->sums.allocated_bytes, size);
}

/* Puts return addresses back that return probes have replaced, so that a call stack is the same with and without. */
static __noinline int put_returns_right(struct heap_thread *thread, __u64 sp, __u32 length)
{
    if (!thread)
        return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    struct return_instance *instance = innermost_return(task);
    if (!instance)
        return 0;
    __u64 *words = (__u64 *)thread->fresh.slice, trampoline = return_trampoline(task);
#pragma clang loop unroll(disable)
    for (int i = 0; i < HEAP_SLICE / 8; i++) {
        if (!instance)
            break;
        __u64 distance = BPF_CORE_READ(instance, stack) - sp;
        if (distance < length) {
            __u64 *word = &words[distance / 8 & (HEAP_SLICE / 8 - 1)];
            if (*word == trampoline)
                *word = BPF_CORE_READ(instance, orig_ret_vaddr);
        } else if (distance < 1ULL << 63) {
            break; /* above: the rest lies above it */
        }
        instance = BPF_CORE_READ(instance, next);
    }
    return 0;
}

/* Id of the stack that regs are at the top of: of the words that may be return addresses, and how deep they
 * lie.  Kept where it is new.  0: it could not be read, or there is no room.
 * allocates: counted there at once, which spares a look-up; see uncount(). */
static __noinline __u64 stack_id(struct heap_thread *thread, struct heap_account *account, struct pt_regs *regs,
                                 __u64 now, int allocates)
{
    if (!thread || !account || !regs)
        return 0;
    struct heap_stack *fresh = &thread->fresh;
    __u32 slot = thread->slot;
    __u64 *words = (__u64 *)fresh->slice;
    __u32 length = HEAP_SLICE;
    if (bpf_probe_read_user(fresh->slice, HEAP_SLICE, (void *)regs->sp)) {
        /* near the stack's outermost end: up to the end of the page */
        length = (4096 - (regs->sp & 4095)) & (HEAP_SLICE - 8);
        __builtin_memset(fresh->slice, 0, HEAP_SLICE);
        if (!length || bpf_probe_read_user(fresh->slice, length, (void *)regs->sp)) {
            COUNT(account->no_stack, 1);
            return 0;
        }
    }
    put_returns_right(thread, regs->sp, length);
    __u64 start[HEAP_RANGES], extent[HEAP_RANGES], hash = regs->ip;
    for (int i = 0; i < HEAP_RANGES; i++) {
        start[i] = account->range[i].start;
        extent[i] = account->range[i].length;
    }
    for (int i = 0; i < HEAP_SLICE / 8; i++) {
        __u64 word = words[i];
        if (word - start[0] < extent[0] || word - start[1] < extent[1] || word - start[2] < extent[2]) {
            hash = (hash ^ word ^ i) * 0x9e3779b97f4a7c15ULL; /* 2^64 / golden ratio */
            hash ^= hash >> 29;
        }
    }
    hash |= 1; /* 0 is none */
    void *stacks = bpf_map_lookup_elem(&heap_stacks, &slot);
    if (!stacks)
        return 0;
    struct heap_stack *stack = bpf_map_lookup_elem(stacks, &hash);
    if (stack) {
        if (allocates)
            count_at(stack, thread->size, now >> (account->epoch_shift & 63));
        return hash;
    }
    __builtin_memset(fresh, 0, __builtin_offsetof(struct heap_stack, slice));
    fresh->first_ns = now;
    fresh->length = length;
    fresh->function = thread->function;
    fresh->ip = regs->ip;
    fresh->sp = regs->sp;
    fresh->bp = regs->bp;
    fresh->bx = regs->bx;
    fresh->r12 = regs->r12;
    fresh->r13 = regs->r13;
    fresh->r14 = regs->r14;
    fresh->r15 = regs->r15;
    bpf_map_update_elem(stacks, &hash, fresh, BPF_NOEXIST); /* another thread may have been faster */
    stack = bpf_map_lookup_elem(stacks, &hash);
    if (!stack) {
        COUNT(account->no_stack, 1);
        return 0;
    }
    if (allocates)
        count_at(stack, thread->size, now >> (account->epoch_shift & 63));
    return hash;
}

/* ---- what is written down -------------------------------------------------- */

static __noinline int write_history(struct heap_account *account, __u32 slot, struct heap_record *made)
{
    if (!account || !made)
        return 0;
    void *history = bpf_map_lookup_elem(&heap_history, &slot);
    if (!history)
        return 0;
    __u64 index = COUNT(account->history_next, 1);
    __u32 at = index & account->history_mask;
    struct heap_record *record = bpf_map_lookup_elem(history, &at);
    if (!record)
        return 0;
    STORE(record->seq, 0);
    barrier();
    record->t_ns = made->t_ns;
    record->address = made->address;
    record->size = made->size;
    record->stack = made->stack;
    record->tid = made->tid;
    record->kind = made->kind;
    record->function = made->function;
    record->flags = made->flags;
    barrier();
    STORE(record->seq, index + 1);
    return 0;
}

static __always_inline int keeps_history(struct heap_account *account)
{
    return account->history_mask != ~0ULL;
}

static __always_inline __u32 size_class(__u64 size)
{
    __u32 class = 0;
    if (size >> 32)
        class = 32, size >>= 32;
    if (size >> 16)
        class += 16, size >>= 16;
    if (size >> 8)
        class += 8, size >>= 8;
    if (size >> 4)
        class += 4, size >>= 4;
    if (size >> 2)
        class += 2, size >>= 2;
    class += size >> 1 ? 2 : size;
    return class < HEAP_CLASSES ? class : HEAP_CLASSES - 1;
}

/* The allocation no longer lives: in the sums of whoever made it. */
static __always_inline void give_back(struct heap_account *account, __u32 slot, const struct heap_allocation *was,
                                      __u64 epoch)
{
    void *stacks = bpf_map_lookup_elem(&heap_stacks, &slot);
    struct heap_stack *stack = stacks && was->stack ? bpf_map_lookup_elem(stacks, &was->stack) : 0;
    if (!stack)
        return;
    turn_stack_epoch(stack, epoch);
    COUNT(stack->sums.frees, 1);
    COUNT(stack->sums.freed_bytes, was->size);
}

/* Takes the address out of "heap_live".  1: it was there, and was says what. */
static __always_inline int take_out(__u32 slot, __u64 address, struct heap_allocation *was)
{
    void *live = bpf_map_lookup_elem(&heap_live, &slot);
    if (!live)
        return 0;
    struct heap_allocation *allocation = bpf_map_lookup_elem(live, &address);
    if (!allocation)
        return 0;
    *was = *allocation;
    return bpf_map_delete_elem(live, &address) == 0; /* of two that free the same only one */
}

/* An allocation has succeeded: into "heap_live" and all sums. */
static __noinline int allocated(struct heap_account *account, struct heap_thread *thread, __u64 address, __u64 flags)
{
    if (!account || !thread)
        return 0;
    __u32 slot = thread->slot;
    void *live = bpf_map_lookup_elem(&heap_live, &slot);
    if (!live)
        return 0;
    __u64 now = bpf_ktime_get_ns(), epoch = now >> (account->epoch_shift & 63);
    struct heap_allocation allocation = {
        .size = thread->size,
        .stack = thread->stack,
        .t_ns = now,
        .tid = (__u32)bpf_get_current_pid_tgid(),
        .function = (__u8)thread->function,
    };
    if (account->epoch < epoch)
        turn_epoch(account, epoch);
    if (bpf_map_update_elem(live, &address, &allocation, BPF_NOEXIST)) {
        struct heap_allocation was;
        if (take_out(slot, address, &was)) { /* freed in a way that was not seen */
            flags |= HEAP_REUSED;
            COUNT(account->reused, 1);
            COUNT(account->reused_bytes, was.size);
            give_back(account, slot, &was, epoch);
            if (bpf_map_update_elem(live, &address, &allocation, BPF_NOEXIST))
                flags |= HEAP_UNLISTED;
        } else {
            flags |= HEAP_UNLISTED;
        }
        if (flags & HEAP_UNLISTED) {
            COUNT(account->lost, 1);
            COUNT(account->lost_bytes, allocation.size);
        }
    }
    COUNT(account->sums.allocations, 1);
    COUNT(account->sums.allocated_bytes, allocation.size);
    __u32 class = size_class(allocation.size);
    if (class < HEAP_CLASSES) {
        COUNT(account->sizes[class].allocations, 1);
        COUNT(account->sizes[class].bytes, allocation.size);
    }
    if (keeps_history(account)) {
        struct heap_record record = {
            .t_ns = now,
            .address = address,
            .size = allocation.size,
            .stack = allocation.stack,
            .tid = allocation.tid,
            .kind = HEAP_ALLOCATED,
            .function = allocation.function,
            .flags = (__u8)flags,
        };
        write_history(account, slot, &record);
    }
    return 0;
}

struct freeing {
    __u64 address, t_ns, stack;
    __u32 slot;
    __u8 function, flags;
};

/* An address has been given back; known: was says what stood there. */
static __noinline int freed(struct heap_account *account, struct freeing *free, struct heap_allocation *was, int known)
{
    if (!account || !free || !was)
        return 0;
    __u32 slot = free->slot;
    __u64 epoch = free->t_ns >> (account->epoch_shift & 63);
    if (account->epoch < epoch)
        turn_epoch(account, epoch);
    if (known) {
        COUNT(account->sums.frees, 1);
        COUNT(account->sums.freed_bytes, was->size);
        give_back(account, slot, was, epoch);
    } else {
        COUNT(account->unknown_frees, 1);
    }
    if (keeps_history(account)) {
        struct heap_record record = {
            .t_ns = free->t_ns,
            .address = free->address,
            .size = known ? was->size : 0,
            .stack = free->stack,
            .tid = (__u32)bpf_get_current_pid_tgid(),
            .kind = HEAP_FREED,
            .function = free->function,
            .flags = (__u8)(free->flags | (known ? 0 : HEAP_UNKNOWN)),
        };
        write_history(account, slot, &record);
    }
    return 0;
}

/* ---- the probes ------------------------------------------------------------ */

/* The account that the probe's calls go to; 0: not this address space's. */
static __always_inline struct heap_account *account_of(struct task_struct *task, __u32 slot)
{
    struct heap_account *account = bpf_map_lookup_elem(&heap_accounts, &slot);
    if (!account)
        return 0;
    __u64 mm = (__u64)task->mm, known = LOAD(account->mm);
    if (!known)
        known = __sync_val_compare_and_swap(&account->mm, 0, mm) ?: mm;
    if (known == mm)
        return account;
    COUNT(account->strangers, 1); /* it has executed another program since */
    return 0;
}

/* Whether the thread's call has not returned: at sp stands the kernel's trampoline (arch/x86/kernel/uprobes.c,
 * arch_uretprobe_hijack_return_addr), or, where a probe stands at its ret, still what stood there. */
static __always_inline int still_under_way(struct task_struct *task, struct heap_thread *thread)
{
    __u64 return_address = 0;
    if (bpf_probe_read_user(&return_address, sizeof(return_address), (void *)thread->sp))
        return 0;
    if (return_address == thread->returns_to)
        return 1;
    __u64 trampoline = return_trampoline(task);
    return trampoline && return_address == trampoline;
}

/* Whether a call at this stack pointer is part of the one the thread is in; which may be over without having
 * returned (longjmp out of a signal handler, an exception). */
static __always_inline int is_nested(struct task_struct *task, struct heap_thread *thread, __u64 sp)
{
    return thread->sp && sp < thread->sp && still_under_way(task, thread);
}

static __noinline int restore_old(struct heap_account *account, struct heap_thread *thread)
{
    if (!account || !thread)
        return 0;
    __u32 slot = thread->slot;
    void *live = bpf_map_lookup_elem(&heap_live, &slot);
    if (thread->had_old && (!live || bpf_map_update_elem(live, &thread->old, &thread->was, BPF_NOEXIST))) {
        COUNT(account->lost, 1);
        COUNT(account->lost_bytes, thread->was.size);
    }
    thread->had_old = 0;
    return 0;
}

/* The call has come to nothing, or to another size than was asked for: its stack was counted when it began. */
static __noinline int uncount(struct heap_thread *thread, __u64 allocations, __u64 bytes)
{
    if (!thread)
        return 0;
    __u32 slot = thread->slot;
    __u64 id = thread->stack;
    void *stacks = bpf_map_lookup_elem(&heap_stacks, &slot);
    struct heap_stack *stack = stacks && id ? bpf_map_lookup_elem(stacks, &id) : 0;
    if (stack) {
        COUNT(stack->sums.allocations, -allocations);
        COUNT(stack->sums.allocated_bytes, -bytes);
    }
    return 0;
}

static __always_inline void drop_call(struct heap_account *account, struct heap_thread *thread)
{
    if (thread->sp) {
        COUNT(account->unfinished, 1);
        uncount(thread, 1, thread->size);
    }
    restore_old(account, thread);
    thread->sp = 0;
}

static __always_inline __u64 product(__u64 count, __u64 size)
{
    return count * size; /* where it overflows the call fails and the size is not used */
}

SEC("uprobe")
int heap_enter(struct pt_regs *regs)
{
    struct task_struct *task = bpf_get_current_task_btf();
    __u64 cookie = bpf_get_attach_cookie(regs);
    __u32 slot = cookie & (HEAP_PROCESSES - 1), function = cookie >> HEAP_COOKIE_FUNCTION_SHIFT & 0xff;
    struct heap_account *account = account_of(task, slot);
    if (!account)
        return 0;
    struct heap_thread *thread = bpf_task_storage_get(&heap_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!thread) {
        COUNT(account->no_frame, 1);
        return 0;
    }
    if (is_nested(task, thread, regs->sp))
        return 0;
    __u64 first = regs->di, second = regs->si, third = regs->dx, old = 0, size = first;
    if (function == HEAP_CALLOC) {
        size = product(first, second);
    } else if (function == HEAP_ALIGNED) {
        size = second;
    } else if (function == HEAP_POSIX_MEMALIGN) {
        size = third;
    } else if (function == HEAP_REALLOC || function == HEAP_RALLOCX || function == HEAP_XALLOCX) {
        old = first;
        size = second;
    } else if (function == HEAP_REALLOCARRAY) {
        old = first;
        size = product(second, third);
    }
    /* a function that ends by jumping to another is one call: its stack is the one before the kernel's trampoline
     * stood in it, and what was taken out stays out */
    int jumped = thread->sp == regs->sp && still_under_way(task, thread);
    if (!jumped)
        drop_call(account, thread);
    else if (thread->old != old)
        restore_old(account, thread);
    int carried = jumped && thread->had_old;
    thread->function = function;
    thread->slot = slot;
    thread->out = first;
    thread->old = old;
    __u64 now = bpf_ktime_get_ns();
    if (!jumped) {
        thread->returns_to = 0;
        if (cookie & HEAP_LEAVE_AT_RET)
            bpf_probe_read_user(&thread->returns_to, sizeof(thread->returns_to), (void *)regs->sp);
        thread->size = size;
        thread->stack = stack_id(thread, account, regs, now, 1);
    } else if (thread->size != size) {
        uncount(thread, 0, thread->size - size);
        thread->size = size;
    }
    if (old && !carried) {
        thread->old_ns = now;
        thread->had_old = take_out(slot, old, &thread->was);
    }
    thread->sp = regs->sp;
    thread->free_sp = 0;
    return 0;
}

SEC("uprobe") /* attached as a uretprobe, or at ret */
int heap_leave(struct pt_regs *regs)
{
    struct task_struct *task = bpf_get_current_task_btf();
    __u64 cookie = bpf_get_attach_cookie(regs), sp = regs->sp;
    __u32 slot = cookie & (HEAP_PROCESSES - 1);
    struct heap_account *account = account_of(task, slot);
    if (!account)
        return 0;
    struct heap_thread *thread = bpf_task_storage_get(&heap_threads, task, 0, 0);
    if (!(cookie & HEAP_LEAVE_AT_RET))
        sp -= 8; /* ret has popped the return address */
    if (!thread) {
        COUNT(account->unentered, 1);
        return 0;
    }
    if (thread->sp != sp) {
        /* else nested, or the second return of a call that ended by a jump */
        if (!thread->sp && thread->over_sp != sp)
            COUNT(account->unentered, 1); /* before the probes were there */
        return 0;
    }
    thread->sp = 0;
    thread->over_sp = sp;
    __u64 result = regs->ax, address = result;
    __u32 function = thread->function;
    if (function == HEAP_POSIX_MEMALIGN) {
        address = 0;
        if ((__u32)result == 0 && bpf_probe_read_user(&address, sizeof(address), (void *)thread->out))
            address = 0;
    } else if (function == HEAP_XALLOCX) {
        address = thread->old;
        uncount(thread, 0, thread->size - result);
        thread->size = result;
    }
    __u64 flags = 0;
    if (thread->old) {
        /* realloc(p, 0) frees and may return NULL (glibc); else NULL says that nothing has happened */
        if (!address && (thread->size || function == HEAP_RALLOCX)) {
            restore_old(account, thread);
            uncount(thread, 1, thread->size);
            COUNT(account->failed, 1);
            return 0;
        }
        struct freeing free = {.address = thread->old,
                               .t_ns = thread->old_ns,
                               .stack = thread->stack,
                               .slot = slot,
                               .function = (__u8)function,
                               .flags = address == thread->old ? HEAP_IN_PLACE : 0};
        flags = free.flags;
        freed(account, &free, &thread->was, thread->had_old);
        thread->had_old = 0;
        if (!address) {
            uncount(thread, 1, thread->size);
            return 0;
        }
    }
    if (!address) {
        uncount(thread, 1, thread->size);
        COUNT(account->failed, 1);
        return 0;
    }
    allocated(account, thread, address, flags);
    return 0;
}

/* Whether this free is the last one's own work: a library in front of another, a delete that calls free.  A free has
 * no leaving probe; but as long as it lasts its return address stands, and nobody else's address is freed. */
static __always_inline int is_within_free(struct heap_thread *thread, struct pt_regs *regs, __u32 site)
{
    __u64 return_address = 0;
    if (!thread->free_sp || thread->free_address != regs->di || regs->sp > thread->free_sp ||
        (regs->sp == thread->free_sp && site == thread->free_site))
        return 0;
    return !bpf_probe_read_user(&return_address, sizeof(return_address), (void *)thread->free_sp) &&
           return_address == thread->free_returns_to;
}

SEC("uprobe")
int heap_free(struct pt_regs *regs)
{
    if (!regs->di)
        return 0;
    struct task_struct *task = bpf_get_current_task_btf();
    __u64 cookie = bpf_get_attach_cookie(regs);
    __u32 slot = cookie & (HEAP_PROCESSES - 1), function = cookie >> HEAP_COOKIE_FUNCTION_SHIFT & 0xff;
    struct heap_account *account = account_of(task, slot);
    if (!account)
        return 0;
    struct heap_thread *thread = bpf_task_storage_get(&heap_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!thread) {
        COUNT(account->no_frame, 1);
        return 0;
    }
    __u32 site = cookie >> HEAP_COOKIE_SITE_SHIFT & 0xff;
    if (is_nested(task, thread, regs->sp) || is_within_free(thread, regs, site))
        return 0;
    drop_call(account, thread);
    thread->free_address = regs->di;
    thread->free_sp = regs->sp;
    thread->free_site = site;
    bpf_probe_read_user(&thread->free_returns_to, sizeof(thread->free_returns_to), (void *)regs->sp);
    struct freeing free = {.address = regs->di, .t_ns = bpf_ktime_get_ns(), .slot = slot, .function = (__u8)function};
    if (keeps_history(account)) {
        thread->function = function;
        thread->slot = slot;
        free.stack = stack_id(thread, account, regs, free.t_ns, 0);
    }
    struct heap_allocation was = {};
    int known = take_out(slot, free.address, &was);
    freed(account, &free, &was, known);
    return 0;
}
