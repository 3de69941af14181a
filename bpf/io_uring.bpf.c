// SPDX-License-Identifier: GPL-2.0-only
// Requests of io_uring, which are no system calls: one io_uring_enter submits many of them, or a thread of the kernel's
// does so (IORING_SETUP_SQPOLL), and they are over when their completions are posted, whenever that is.
//
// A request is kept once, when its completion is posted, among the calls of the thread in whose context that happens,
// so that nobody else writes to its segments: mostly the program's own (a completion is posted when its thread is on
// its way out of the kernel), else one that io_uring has made in the process (iou-wrk, iou-sqp).  It names its
// submitter.
//
// The layouts are declared here, with what is read of them: vmlinux.h is of the machine it was built on.
#include "bpf/segments.bpf.h"
#include "bpf/tallies.bpf.h"
#include "bpf/watch.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct io_ring_ctx___read {
    unsigned int flags;
    __u32 *sq_array;
    void *sq_sqes;
    unsigned int cached_sq_head;
    unsigned int sq_entries;
};
struct io_cqe___read {
    __u64 user_data;
};
struct io_uring_task___read {
    struct task_struct *task;
};
struct io_kiocb___read {
    __u8 opcode;
    __u64 flags; /* the lowest are IOSQE_* as the kernel took them; 32 bits before 6.10 */
    struct io_cqe___read cqe;
    struct io_ring_ctx___read *ctx;
    struct io_uring_task___read *tctx; /* since 6.13 */
};
struct io_kiocb___before_6_13 {
    struct task_struct *task;
};
#pragma clang attribute pop

/* include/uapi/linux/io_uring.h */
struct queue_entry {
    __u8 opcode;
    __u8 flags;
    __u16 ioprio;
    __s32 fd;
    __u64 off, addr;
    __u32 len, op_flags;
    __u64 user_data;
    __u16 buffer, personality;
    __u32 file_index; /* of a descriptor in the ring's own table, and 1 */
};
struct posted_completion {
    __u64 user_data;
    __s32 res;
    __u32 flags;
};
#define SETUP_SQE128 (1u << 10)
#define SETUP_NO_SQARRAY (1u << 16)
#define ENTRY_BYTES 64u
#define ECANCELED 125                                       /* include/uapi/asm-generic/errno.h */
#define CQE_SKIP_SUCCESS (1u << 6)                          /* IOSQE_CQE_SKIP_SUCCESS_BIT */
#define LINKED ((1u << 2 | 1u << 3) << REQUEST_FLAGS_SHIFT) /* IOSQE_IO_LINK, IOSQE_IO_HARDLINK */
#define CQE_MORE (1u << 1)                                  /* IORING_CQE_F_MORE */

#define IS_EXITING 0x00000004       /* PF_EXITING, include/linux/sched.h */
#define IS_KERNEL_THREAD 0x00200000 /* PF_KTHREAD */

const volatile __u32 completes_by_cqe = 0; /* the tracepoint is given the struct io_uring_cqe (since 6.16) */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, REQUESTS_MAX);
    __type(key, __u64);
    __type(value, struct pending_request);
} io_requests SEC(".maps");

__u32 requests_pending = 0; /* entries of it */

/* Of the thread in whose context this runs; 0: it is not recorded.  A slot is taken here for io_uring's own threads
 * alone, which make no call: others have one since their io_uring_enter, and who is about to end or to execute, in
 * whose context the kernel takes back what is in flight, must not get another. */
static __noinline struct thread_slot *slot_of_current(void)
{
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 tid = task->pid, epoch = *(volatile __u32 *)&watch_epoch & SLOT_EPOCH;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry)
        return 0;
    __u32 value = *entry, slot = value - 1;
    if (value == (SLOT_IGNORED | epoch))
        return 0;
    struct thread_slot *thread = 0;
    if (slot < slots)
        thread = bpf_map_lookup_elem(&threads, &slot);
    if (!(task->flags & PF_IO_WORKER)) /* also one that nobody has decided about yet: its next call asks again */
        return thread;
    if (thread && thread->epoch == epoch)
        return thread;
    if (task->flags & IS_EXITING)
        return 0;
    return decide_slot(task, entry);
}

/* The entry that was taken last; 0: it cannot be read. */
static __always_inline int read_entry(struct io_ring_ctx___read *ring, struct queue_entry *entry)
{
    __u32 flags = ring->flags, mask = ring->sq_entries - 1, head = (ring->cached_sq_head - 1) & mask;
    if (!(flags & SETUP_NO_SQARRAY) &&
        (bpf_probe_read_kernel(&head, sizeof(head), (void *)((__u64)ring->sq_array + head * sizeof(head))) ||
         head > mask))
        return 0;
    __u64 at =
        (__u64)BPF_CORE_READ(ring, sq_sqes) + (__u64)head * (flags & SETUP_SQE128 ? 2 * ENTRY_BYTES : ENTRY_BYTES);
    return !bpf_probe_read_kernel(entry, sizeof(*entry), (void *)at);
}

/* enum io_uring_op: the entry's addr is a path. */
#define OPENAT 18
#define NAMES_PATH                                                                                                     \
    (1ULL << OPENAT | 1ULL << 21 /* statx */ | 1ULL << 28 /* openat2 */ | 1ULL << 35 /* renameat */ |                  \
     1ULL << 36 /* unlinkat */ | 1ULL << 37 /* mkdirat */ | 1ULL << 38 /* symlinkat */ | 1ULL << 39 /* linkat */)
/* … it waits for others, or for a time: read (also from sockets), poll, accept, recv, timeouts, epoll, futex, waitid.
 */
#define WAITS                                                                                                          \
    (1ULL << 1 | 1ULL << 4 | 1ULL << 6 | 1ULL << 10 | 1ULL << 11 | 1ULL << 13 | 1ULL << 15 | 1ULL << 22 | 1ULL << 27 | \
     1ULL << 49 | 1ULL << 50 | 1ULL << 51 | 1ULL << 53 | 1ULL << 58 | 1ULL << 59)
/* … to have come to its end is to fail with ETIME. */
#define TIMEOUTS (1ULL << 11 | 1ULL << 15)

static __always_inline int is_among(__u64 operations, __u32 code)
{
    return operations >> (code & 63) & 1 && (code & REQUEST_OPERATION) < 64;
}

static __noinline int describe(struct pending_request *pending, struct io_kiocb___read *from)
{
    struct queue_entry entry;
    if (!pending)
        return 0;
    struct io_request *request = &pending->request;
    request->user_data = from->cqe.user_data;
    request->code = from->opcode | ((__u32)from->flags & REQUEST_FLAGS_MASK) << REQUEST_FLAGS_SHIFT;
    if (from->flags & CQE_SKIP_SUCCESS)
        request->code |= REQUEST_SILENT;
    pending->path_length = 0;
    if (!read_entry(from->ctx, &entry) || entry.user_data != request->user_data ||
        entry.opcode != (request->code & REQUEST_OPERATION)) {
        request->fd = request->address = request->offset = request->length = request->op_flags = 0;
        request->code |= REQUEST_UNREAD;
        return 0;
    }
    request->fd = entry.fd;
    request->address = entry.addr;
    request->offset = entry.off;
    request->length = entry.len;
    request->op_flags = entry.op_flags;
    if (is_among(NAMES_PATH, request->code)) {
        long length = bpf_probe_read_user_str(pending->path, REQUEST_PATH_LEN, (void *)entry.addr);
        pending->path_length = length > 0 ? length : 0;
    }
    if (entry.file_index)
        request->code |= REQUEST_DIRECT;
    return 0;
}

/* Takes it off the list of those in flight. */
static __always_inline void forget(__u64 key, __u32 share)
{
    if (bpf_map_delete_elem(&io_requests, &key))
        return;
    __sync_fetch_and_add(&requests_pending, -1);
    __sync_fetch_and_sub(&share_at(share)->requests, 1);
}

/* An earlier one there, whose end was not seen. */
static __noinline int forget_earlier(__u64 key)
{
    struct pending_request *before = requests_pending ? bpf_map_lookup_elem(&io_requests, &key) : 0;
    if (before)
        forget(key, before->share);
    return 0;
}

static __noinline int count_unseen(__u32 tgid)
{
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (process)
        __sync_fetch_and_add(&process->requests_unseen, 1);
    count_loss(LOSS_REQUEST);
    return 0;
}

static __noinline int note_pending(__u64 key, struct pending_request *pending)
{
    if (!pending)
        return 0;
    __u32 tgid = pending->tgid;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    struct user_share *share = share_at(pending->share);
    __u32 taken = requests_pending;
    if (!process) {
        count_loss(LOSS_REQUEST);
        return 0;
    }
    if (taken >= REQUESTS_MAX || share->requests >= HELD_FACTOR * (REQUESTS_MAX - taken) ||
        bpf_map_update_elem(&io_requests, &key, pending, BPF_NOEXIST)) {
        count_unseen(tgid);
        return 0;
    }
    __sync_fetch_and_add(&requests_pending, 1);
    __sync_fetch_and_add(&share->requests, 1);
    return 0;
}

/* Where one is made before it is put into the map, and where one is copied to when it is taken out: one for each of the
 * tracepoints, of which none runs within itself. */
enum scratch_of { SCRATCH_SUBMITTED, SCRATCH_COMPLETED, SCRATCH_OVERFLOWED, SCRATCHES };
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SCRATCHES);
    __type(key, __u32);
    __type(value, struct pending_request);
} uring_scratch SEC(".maps");

/* What is in flight of that process may have ended without being told. */
static __noinline int note_doubt(__u32 tgid)
{
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (process)
        __sync_fetch_and_add(&process->requests_doubtful, 1);
    return process != 0;
}

static __noinline int begin_request(struct io_kiocb___read *from)
{
    __u32 which = SCRATCH_SUBMITTED;
    forget_earlier((__u64)from);
    struct thread_slot *thread = slot_of_current();
    struct pending_request *pending = bpf_map_lookup_elem(&uring_scratch, &which);
    if (!thread || !pending || thread->untimed)
        return 0;
    pending->request.t_ns = bpf_ktime_get_ns();
    pending->request.duration_ns = IN_FLIGHT;
    pending->request.result = 0;
    pending->request.submitter = thread->tid;
    pending->process_start_boot_ns = thread->process_start_boot_ns;
    pending->tgid = thread->tgid;
    pending->share = thread->share;
    describe(pending, from);
    /* Where one of a chain is silent, the rest of it may be cancelled silently (io_fail_links). */
    if (pending->request.code & REQUEST_SILENT && pending->request.code & LINKED)
        note_doubt(pending->tgid);
    if (pending->request.code & REQUEST_SILENT)
        keep_request(thread, &pending->request, (__u64)pending->path, pending->path_length);
    else
        note_pending((__u64)from, pending);
    return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(uring_submits, struct io_kiocb___read *request)
{
    return begin_request(request);
}

/* The name it had before 6.4. */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(uring_submits_sqe, struct io_kiocb___read *request)
{
    return begin_request(request);
}

static __always_inline void begin_request_ask(struct tally_ask *ask, const struct thread_slot *thread,
                                              const struct io_request *request, __u32 kind)
{
    __u64 took = request->duration_ns;
    __builtin_memset(ask, 0, sizeof(*ask));
    ask->process_start_boot_ns = thread->process_start_boot_ns;
    ask->ret = request->result;
    ask->took_ns = took < NO_DURATION ? took : 0;
    ask->now_ns = request->t_ns + ask->took_ns;
    ask->tgid = thread->tgid;
    ask->tid = request->submitter;
    ask->share = thread->share;
    ask->nr = request->code & REQUEST_OPERATION;
    ask->kind = kind;
    ask->flags = TALLY_REQUEST | (is_among(WAITS, request->code) ? TALLY_IDLE : 0);
    ask->value = (__u32)request->fd;
}

__weak int tally_request_path(struct thread_slot *thread, struct pending_request *done)
{
    struct tally_ask ask;
    if (!thread || !done || !done->path_length)
        return 0;
    begin_request_ask(&ask, thread, &done->request, TALLY_PATH);
    ask.value = done->request.op_flags;
    ask.length = done->path_length - 1;
    ask.name_at = (__u64)done->path;
    ask.hash = hash_name(done->path, ask.length, REQUEST_PATH_LEN / 8);
    return tally_in(&ask, TALLY_REGION_PATH);
}

/* That it failed, or lasted long.  One that was taken back has not failed. */
__weak int tally_request(struct thread_slot *thread, struct pending_request *done)
{
    struct tally_ask ask;
    if (!thread || !done)
        return 0;
    struct io_request *request = &done->request;
    if (has_failed(request->result) && request->result != -ECANCELED && !is_among(TIMEOUTS, request->code)) {
        begin_request_ask(&ask, thread, request, TALLY_FAILURE);
        ask.code = -request->result;
        tally_in(&ask, TALLY_REGION_OTHER);
    }
    if (request->duration_ns >= TALLY_SLOW_NS && request->duration_ns < NO_DURATION) {
        begin_request_ask(&ask, thread, request, TALLY_SLOW);
        ask.code = slow_step(request->duration_ns);
        tally_in(&ask, TALLY_REGION_OTHER);
    }
    return 0;
}

static __always_inline __u32 submitter_of(struct io_kiocb___read *request)
{
    struct task_struct *task;
    if (bpf_core_field_exists(request->tctx))
        task = BPF_CORE_READ(request, tctx, task);
    else
        task = BPF_CORE_READ((struct io_kiocb___before_6_13 *)request, task);
    return BPF_CORE_READ(task, pid);
}

/* Of a completion of which no submission is known.  at: of its request; 0: it has none of its own. */
static __noinline int describe_unseen(struct pending_request *done, struct io_kiocb___read *at, __u64 user_data)
{
    struct io_request *request;
    if (!done)
        return 0;
    request = &done->request;
    request->t_ns = bpf_ktime_get_ns();
    request->duration_ns = NO_DURATION;
    request->user_data = user_data;
    request->address = request->offset = 0;
    request->fd = request->length = request->op_flags = request->submitter = 0;
    request->code = REQUEST_UNSEEN;
    done->path_length = 0;
    if (at) {
        request->code |= BPF_CORE_READ(at, opcode);
        request->submitter = submitter_of(at);
    } else {
        request->code |= REQUEST_NAMELESS;
    }
    return 0;
}

/* In the context of a thread that is not recorded.  What a process that has died had in flight stays listed for its
 * incident, which is made a little later: the kernel takes it back as the process ends. */
static __noinline int end_elsewhere(__u64 key, struct pending_request *pending)
{
    if (!pending)
        return 0;
    __u32 tgid = pending->tgid, flags = bpf_get_current_task_btf()->flags;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (flags & (IS_EXITING | IS_KERNEL_THREAD)) {
        if (process && process->start_boot_ns == pending->process_start_boot_ns && process->death_ns)
            return 0;
    } else {
        count_unseen(tgid);
    }
    forget(key, pending->share);
    return 0;
}

static __noinline int end_request(struct io_kiocb___read *at, struct posted_completion *posted, __u32 overflows)
{
    __u64 key = (__u64)at;
    __u32 which = overflows ? SCRATCH_OVERFLOWED : SCRATCH_COMPLETED;
    struct pending_request *done = bpf_map_lookup_elem(&uring_scratch, &which);
    if (!posted || !done)
        return 0;
    struct thread_slot *thread = slot_of_current();
    if (!thread && !requests_pending)
        return 0;
    struct pending_request *pending = at ? bpf_map_lookup_elem(&io_requests, &key) : 0;
    if (!thread) {
        if (pending)
            end_elsewhere(key, pending);
        return 0;
    }
    if (pending && thread->captured)
        return 0; /* the process has died: as in end_elsewhere() */
    if (pending) {
        /* Copied first: taken out, its place is another's at once.  Whatever its flags say, it is this one's last
         * completion: those that follow have no request (io_fill_cqe_aux), and of a zero-copy send another one
         * (io_alloc_notif). */
        bpf_probe_read_kernel(done, sizeof(*done), pending);
        done->request.duration_ns = bpf_ktime_get_ns() - done->request.t_ns;
        forget(key, done->share);
    }
    if (!pending || done->request.user_data != posted->user_data)
        describe_unseen(done, at, posted->user_data);
    done->request.result = posted->res;
    done->request.code |= (posted->flags & CQE_MORE ? REQUEST_MORE : 0) | (overflows ? REQUEST_OVERFLOW : 0);
    keep_request(thread, &done->request, (__u64)done->path, done->path_length);
    if (!(done->request.code & REQUEST_NAMELESS)) {
        tally_request(thread, done);
        tally_request_path(thread, done);
    }
    return 0;
}

SEC("tp_btf/io_uring_complete")
int uring_completes(__u64 *ctx)
{
    struct posted_completion posted = {};
    if (completes_by_cqe) {
        bpf_probe_read_kernel(&posted, sizeof(posted), (void *)ctx[2]);
    } else {
        posted.user_data = ctx[2];
        posted.res = ctx[3];
        posted.flags = ctx[4];
    }
    return end_request((void *)ctx[1], &posted, 0);
}

/* The queue was full.  Which request it was is not told: those in flight may have ended. */
SEC("tp_btf/io_uring_cqe_overflow")
int BPF_PROG(uring_overflows, void *ring, __u64 user_data, __s32 result, __u32 flags)
{
    struct posted_completion posted = {.user_data = user_data, .res = result, .flags = flags};
    if (!note_doubt(bpf_get_current_pid_tgid() >> 32))
        return 0;
    return end_request(0, &posted, 1);
}
