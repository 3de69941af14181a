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
#define CQE_SKIP_SUCCESS (1u << 6) /* IOSQE_CQE_SKIP_SUCCESS_BIT */
#define CQE_MORE (1u << 1)         /* IORING_CQE_F_MORE */

#define IS_KERNEL_THREAD 0x00200000 /* PF_KTHREAD, include/linux/sched.h: it works for nobody's process */

const volatile __u32 completes_by_cqe = 0; /* the tracepoint is given the struct io_uring_cqe (since 6.16) */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, REQUESTS_MAX);
    __type(key, __u64);
    __type(value, struct pending_request);
} io_requests SEC(".maps");

__u32 requests_pending = 0; /* entries of it */

/* Of the thread in whose context this runs; 0: it is not recorded. */
static __noinline struct thread_slot *slot_of_current(void)
{
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 tid = task->pid, epoch = *(volatile __u32 *)&watch_epoch & SLOT_EPOCH;
    __u32 *entry = bpf_map_lookup_elem(&slot_of, &tid);
    if (!entry || (task->flags & IS_KERNEL_THREAD))
        return 0;
    __u32 value = *entry, slot = value - 1;
    if (value == (SLOT_IGNORED | epoch))
        return 0;
    struct thread_slot *thread = 0;
    if (slot < slots)
        thread = bpf_map_lookup_elem(&threads, &slot);
    if (thread && thread->epoch == epoch)
        return thread;
    return decide_slot(task, entry);
}

/* The entry that was taken last; 0: it cannot be read. */
static __always_inline int read_entry(struct io_ring_ctx___read *ring, struct queue_entry *entry)
{
    unsigned int flags = BPF_CORE_READ(ring, flags), mask = BPF_CORE_READ(ring, sq_entries) - 1;
    __u32 head = (BPF_CORE_READ(ring, cached_sq_head) - 1) & mask;
    if (!(flags & SETUP_NO_SQARRAY)) {
        __u32 *places = BPF_CORE_READ(ring, sq_array);
        if (bpf_probe_read_kernel(&head, sizeof(head), &places[head]) || head > mask)
            return 0;
    }
    void *entries = BPF_CORE_READ(ring, sq_sqes);
    return !bpf_probe_read_kernel(entry, sizeof(*entry),
                                  entries + head * (flags & SETUP_SQE128 ? 2 * ENTRY_BYTES : ENTRY_BYTES));
}

static __noinline int describe(struct io_request *request, struct io_kiocb___read *from)
{
    struct queue_entry entry;
    if (!request)
        return 0;
    request->user_data = BPF_CORE_READ(from, cqe.user_data);
    request->code = BPF_CORE_READ(from, opcode);
    if (!read_entry(BPF_CORE_READ(from, ctx), &entry) || entry.user_data != request->user_data ||
        entry.opcode != request->code) {
        request->code |= REQUEST_UNREAD;
        return 0;
    }
    request->fd = entry.fd;
    request->address = entry.addr;
    request->offset = entry.off;
    request->length = entry.len;
    request->op_flags = entry.op_flags;
    request->code |= (__u32)entry.flags << REQUEST_FLAGS_SHIFT | (entry.file_index ? REQUEST_DIRECT : 0) |
                     (entry.flags & CQE_SKIP_SUCCESS ? REQUEST_SILENT : 0);
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

static __noinline int note_pending(__u64 key, struct pending_request *pending)
{
    struct pending_request *before = bpf_map_lookup_elem(&io_requests, &key);
    struct user_share *share = share_at(pending->share);
    if (before) /* of an earlier one there, whose end was not seen */
        forget(key, before->share);
    __u32 taken = requests_pending;
    if (taken >= REQUESTS_MAX || share->requests >= HELD_FACTOR * (REQUESTS_MAX - taken) ||
        bpf_map_update_elem(&io_requests, &key, pending, BPF_NOEXIST)) {
        __u32 tgid = pending->tgid;
        struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
        if (process)
            __sync_fetch_and_add(&process->requests_unseen, 1);
        count_loss(LOSS_REQUEST);
        return 0;
    }
    __sync_fetch_and_add(&requests_pending, 1);
    __sync_fetch_and_add(&share->requests, 1);
    return 0;
}

static __noinline int begin_request(struct io_kiocb___read *from)
{
    struct thread_slot *thread = slot_of_current();
    if (!thread || thread->untimed)
        return 0;
    struct pending_request pending = {};
    pending.request.t_ns = bpf_ktime_get_ns();
    pending.request.duration_ns = IN_FLIGHT;
    pending.request.submitter = thread->tid;
    pending.process_start_boot_ns = thread->process_start_boot_ns;
    pending.tgid = thread->tgid;
    pending.share = thread->share;
    describe(&pending.request, from);
    if (pending.request.code & REQUEST_SILENT)
        keep_request(thread, &pending.request, pending.request.t_ns);
    else
        note_pending((__u64)from, &pending);
    return 0;
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(request_begins, void *request)
{
    return begin_request(request);
}

/* The name it had before 6.4. */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(request_begins_by_sqe, void *request)
{
    return begin_request(request);
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

/* at: of the request; 0: of a completion that has none of its own. */
static __noinline int end_request(struct io_kiocb___read *at, struct posted_completion *posted, __u32 overflows)
{
    struct io_request request = {};
    __u64 key = (__u64)at, now = bpf_ktime_get_ns();
    struct pending_request *pending = at ? bpf_map_lookup_elem(&io_requests, &key) : 0;
    if (!posted)
        return 0;
    if (pending) {
        request = pending->request;
        request.duration_ns = now - request.t_ns;
        if (!(posted->flags & CQE_MORE))
            forget(key, pending->share);
    } else {
        request.t_ns = now;
        request.duration_ns = NO_DURATION;
        request.user_data = posted->user_data;
        request.code = REQUEST_UNSEEN;
        if (at) {
            request.code |= BPF_CORE_READ(at, opcode);
            request.submitter = submitter_of(at);
        } else {
            request.code |= REQUEST_NAMELESS;
        }
    }
    request.result = posted->res;
    request.code |= (posted->flags & CQE_MORE ? REQUEST_MORE : 0) | (overflows ? REQUEST_OVERFLOW : 0);
    struct thread_slot *thread = slot_of_current();
    if (thread)
        keep_request(thread, &request, now);
    else if (pending)
        count_loss(LOSS_REQUEST);
    return 0;
}

SEC("tp_btf/io_uring_complete")
int request_ends(__u64 *ctx)
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
int BPF_PROG(request_overflows, void *ring, __u64 user_data, __s32 result, __u32 flags)
{
    struct posted_completion posted = {.user_data = user_data, .res = result, .flags = flags};
    __u32 tgid = bpf_get_current_pid_tgid() >> 32;
    struct process_entry *process = bpf_map_lookup_elem(&processes, &tgid);
    if (!process)
        return 0;
    __sync_fetch_and_add(&process->requests_overflowed, 1);
    return end_request(0, &posted, 1);
}
