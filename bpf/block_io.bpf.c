// SPDX-License-Identifier: GPL-2.0-only
// Requests to block devices that are slow or fail; attached only while a rule wants them.
//
// A completion runs in an interrupt: the current task has nothing to do with it.  A request
// may be issued by a kernel worker.  So the process is noted where the bio is queued, in
// its own context, found again by the bio at issue, and by the request at completion.
#include "bpf/trigger.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct submitter {
    struct trigger_head t;
    __u64 queued_ns;
};

struct request_start {
    struct trigger_head t;
    __u64 queued_ns, issued_ns;
    __u64 sector;
    __u32 bytes, operation, device, known;
    char disk[DISK_NAME_LEN];
};

/* By bio; kept beyond the issue, for a request that fails may be issued again.  The least
 * recently used make room, and a bio that is used again is queued again. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 8192);
    __type(key, __u64);
    __type(value, struct submitter);
} submitters SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 8192);
    __type(key, __u64);
    __type(value, struct request_start);
} requests SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 2); /* 0: of tasks, 1: of interrupts */
    __type(key, __u32);
    __type(value, struct request_start);
} request_scratch SEC(".maps");

SEC("tp_btf/block_bio_queue")
int BPF_PROG(bio_queued, struct bio *bio)
{
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 generation = *(volatile __u32 *)&rules_generation;
    __u64 rules = rules_of_task(task, generation) & block_io_rules[generation & 1], key = (__u64)bio;
    __u64 began = rules ? own_begin() : 0;
    struct submitter submitter = {};
    if (rules) {
        fill_trigger(&submitter.t, TRIGGER_BLOCK_IO, task, rules, generation);
        submitter.queued_ns = submitter.t.h.t_ns;
    }
    submitter.t.generation = generation;
    /* a stranger's too: one nobody was seen queueing may be anybody's */
    bpf_map_update_elem(&submitters, &key, &submitter, BPF_ANY);
    own_end(began, rules, OWN_BIO_QUEUED);
    return 0;
}

/* 5.17: request.rq_disk went, the disk is the queue's (commit f3fa33acca9f). */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(request_issued, struct request *request)
{
    __u32 zero = 0;
    struct request_start *start = bpf_map_lookup_elem(&request_scratch, &zero);
    if (!start)
        return 0;
    __u64 bio = (__u64)BPF_CORE_READ(request, bio), key = (__u64)request;
    struct submitter *submitter = bpf_map_lookup_elem(&submitters, &bio);
    __u32 generation = *(volatile __u32 *)&rules_generation;
    __u64 mine = block_io_rules[generation & 1];
    if (submitter && submitter->t.generation == generation)
        mine &= submitter->t.rules;
    if (!mine)
        return 0;
    if (submitter && !submitter->t.h.kind) /* a stranger's, queued under other rules: about nobody */
        submitter = 0;
    __u64 began = own_begin();
    start->issued_ns = bpf_ktime_get_ns();
    start->known = submitter != 0;
    start->queued_ns = 0;
    if (submitter) {
        start->t = submitter->t;
        start->queued_ns = submitter->queued_ns;
    } else {
        __builtin_memset(&start->t, 0, sizeof(start->t)); /* generation 0: about all rules */
    }
    start->sector = BPF_CORE_READ(request, __sector);
    start->bytes = BPF_CORE_READ(request, __data_len);
    start->operation = BPF_CORE_READ(request, cmd_flags) & 0xff; /* REQ_OP_MASK, include/linux/blk_types.h */
    struct gendisk *disk = BPF_CORE_READ(request, q, disk);
    start->device = 0;
    start->disk[0] = 0;
    if (disk) {
        start->device = (__u32)BPF_CORE_READ(disk, major) << 20 | (__u32)BPF_CORE_READ(disk, first_minor);
        bpf_probe_read_kernel_str(start->disk, DISK_NAME_LEN, BPF_CORE_READ(disk, disk_name));
    }
    if (bpf_map_update_elem(&requests, &key, start, BPF_ANY))
        count_loss(LOSS_IN_FLIGHT);
    own_end(began, mine, OWN_REQUEST_ISSUED);
    return 0;
}

struct request_test {
    __u64 want, hold;
    __u64 duration_ns;
    __u32 status, write;
    __u32 generation;
};

static long test_request(__u32 bit, struct request_test *test)
{
    if (!(test->want & (1ULL << bit)))
        return 0;
    struct condition_settings *settings = condition_of(test->generation, bit);
    if (!settings || !(settings->operations & (test->write ? 2 : 1)))
        return 0;
    int slow = settings->slower_than_ns && test->duration_ns >= settings->slower_than_ns;
    int failed = settings->failed && test->status;
    if (slow || failed || (!settings->slower_than_ns && !settings->failed))
        test->hold |= 1ULL << bit;
    return 0;
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_done, struct request *request, __u8 status, unsigned int bytes)
{
    __u64 key = (__u64)request;
    struct request_start *start = bpf_map_lookup_elem(&requests, &key);
    if (!start)
        return 0;
    /* in parts: the rest follows, or fails (block/blk-mq.c, blk_update_request: __data_len is what
     * was left before this part) */
    if (!status && bytes < BPF_CORE_READ(request, __data_len))
        return 0;
    __u64 began = own_begin(), now = bpf_ktime_get_ns();
    __u32 generation = *(volatile __u32 *)&rules_generation;
    __u64 wanted = block_io_rules[generation & 1];
    struct request_test test = {
        /* queued under other rules: those of now may all be about it, and are asked again */
        .want = start->t.generation == generation ? start->t.rules & wanted : wanted,
        .generation = generation,
        .duration_ns = now - start->issued_ns,
        .status = status,
        .write = start->operation != 0,
    };
    bpf_loop(RULE_BITS, test_request, &test, 0);
    if (test.hold) {
        struct block_io_trigger *trigger =
            leaves_room_for_deaths() ? bpf_ringbuf_reserve(&events, sizeof(*trigger), 0) : 0;
        if (!trigger) {
            count_loss(LOSS_TRIGGER);
        } else {
            trigger->t = start->t;
            trigger->t.h.kind = EVENT_TRIGGER;
            trigger->t.h.layout = EVENT_LAYOUT;
            trigger->t.h.t_ns = now;
            trigger->t.kind = TRIGGER_BLOCK_IO;
            trigger->t.rules = test.hold;
            trigger->t.generation = generation;
            trigger->queued_ns = start->queued_ns;
            trigger->issued_ns = start->issued_ns;
            trigger->done_ns = now;
            trigger->sector = start->sector;
            trigger->bytes = start->bytes;
            trigger->status = status;
            trigger->operation = start->operation;
            trigger->device = start->device;
            trigger->known = start->known;
            trigger->pad = 0;
            __builtin_memcpy(trigger->disk, start->disk, DISK_NAME_LEN);
            bpf_ringbuf_submit(trigger, 0);
        }
    }
    bpf_map_delete_elem(&requests, &key);
    own_end(began, test.want, OWN_REQUEST_DONE);
    return 0;
}
