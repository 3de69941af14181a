// SPDX-License-Identifier: GPL-2.0-only
// Any tracepoint of the kernel, by name: one program, attached once a tracepoint, with the
// kernel's number of it as its cookie; map "tracepoints" lists the conditions about it.
//
// A classic tracepoint program gets the record as the format file in tracefs describes it,
// so fields are where user space has read they are.  The record is copied by a probe read
// of as many bytes as the format says: what the verifier would let the program read
// directly is bounded by the shortest tracepoint it could ever be attached to.
#include "bpf/trigger.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct record_test {
    struct condition_settings *settings;
    void *record;
    __u32 passed;
};

static __always_inline __s64 number_at(struct filter_clause *clause, void *at)
{
    __u64 raw = 0;
    if (clause->size == 8) {
        bpf_probe_read_kernel(&raw, 8, at);
        return raw;
    }
    if (clause->size == 4) {
        __u32 value = 0;
        bpf_probe_read_kernel(&value, 4, at);
        return clause->is_signed ? (__s64)(__s32)value : (__s64)value;
    }
    if (clause->size == 2) {
        __u16 value = 0;
        bpf_probe_read_kernel(&value, 2, at);
        return clause->is_signed ? (__s64)(__s16)value : (__s64)value;
    }
    __u8 value = 0;
    bpf_probe_read_kernel(&value, 1, at);
    return clause->is_signed ? (__s64)(__s8)value : (__s64)value;
}

static __always_inline int has_prefix(struct filter_clause *clause, void *at)
{
    char text[FILTER_PREFIX_LEN] = {};
    bpf_probe_read_kernel(text, sizeof(text), at);
    for (__u32 i = 0; i < FILTER_PREFIX_LEN; i++)
        if (i < clause->size && text[i] != clause->prefix[i])
            return 0;
    return 1;
}

static __always_inline int clause_holds(struct filter_clause *clause, void *record)
{
    void *at = record + clause->offset;
    if (clause->op == CLAUSE_PREFIX)
        return has_prefix(clause, at);
    __s64 value = number_at(clause, at), number = clause->number;
    if (clause->size == 8 && !clause->is_signed && clause->op >= CLAUSE_LESS && clause->op <= CLAUSE_GREATER_EQUAL) {
        /* unsigned 64 bits: the same comparisons with the sign turned */
        value ^= 1LL << 63;
        number ^= 1LL << 63;
    }
    switch (clause->op) {
    case CLAUSE_EQUAL:
        return value == number;
    case CLAUSE_NOT_EQUAL:
        return value != number;
    case CLAUSE_LESS:
        return value < number;
    case CLAUSE_LESS_EQUAL:
        return value <= number;
    case CLAUSE_GREATER:
        return value > number;
    case CLAUSE_GREATER_EQUAL:
        return value >= number;
    case CLAUSE_BITS:
        return (value & number) != 0;
    }
    return 1;
}

static long test_clause(__u32 index, struct record_test *test)
{
    struct condition_settings *settings = test->settings;
    if (index >= FILTER_CLAUSES)
        return 1;
    struct filter_clause *clause = &settings->clause[index];
    if (clause->op == CLAUSE_NONE)
        return 1;
    if (clause_holds(clause, test->record))
        return 0;
    test->passed = 0;
    return 1;
}

struct hit_test {
    struct tracepoint_rules *about;
    void *record;
    __u64 want, hold;
    __u64 each; /* of hold: those of which one match is a firing */
};

static long test_condition(__u32 index, struct hit_test *test)
{
    __u32 bit = test->about->bit[index & (RULE_BITS - 1)] & (RULE_BITS - 1), generation = test->about->generation;
    if (!(test->want & (1ULL << bit)))
        return 0;
    struct condition_settings *settings = condition_of(generation, bit);
    if (!settings || settings->generation != generation)
        return 0;
    struct record_test clauses = {.settings = settings, .record = test->record, .passed = 1};
    for (__u32 i = 0; i < FILTER_CLAUSES && clauses.passed; i++)
        if (test_clause(i, &clauses))
            break;
    if (!clauses.passed)
        return 0;
    test->hold |= 1ULL << bit;
    if (settings->each)
        test->each |= 1ULL << bit;
    return 0;
}

/* What is known of a thread that has given its ring back; 0: it has not, or was not recorded. */
static __always_inline struct ended_thread *ended_of(struct task_struct *task)
{
    __u64 address = (__u64)task;
    struct ended_thread *ended = bpf_map_lookup_elem(&ended_threads, &address);
    if (!ended || ended->start_boot_ns != BPF_CORE_READ(task, start_boottime))
        return 0;
    return ended;
}

/* Its ring is still there, for it was the last to be given back. */
static __noinline int capture_ended(void *ctx, struct task_struct *task, struct ended_thread *ended)
{
    struct capture capture = {.ctx = ctx, .role = ROLE_TRIGGERED, .slot = ended->slot, .event = EVENT_SNAPSHOT};
    __u32 slot = ended->slot;
    struct thread_slot *thread = bpf_map_lookup_elem(&threads, &slot);
    if (thread && thread->generation != ended->generation) {
        thread = 0;
        capture.slot = ~0u;
    }
    capture.share = share_of(task);
    capture_process(task, &capture);
    return capture_thread(task, &capture, thread);
}

/* Whether the thread is to be captured now: not from here, for the frames of a call chain share 512 bytes
 * (MAX_BPF_STACK). */
static __noinline int report_hit(void *ctx, struct task_struct *task, struct tracepoint_rules *about, __u64 want,
                                 struct ended_thread *ended)
{
    struct hit_test test = {.about = about, .record = ctx, .want = want};
    bpf_loop(about->count, test_condition, &test, 0);
    if (!test.hold)
        return 0;
    struct tracepoint_trigger *trigger =
        may_send(task, sizeof(*trigger), SHARE_OTHERS) ? bpf_ringbuf_reserve(&events, sizeof(*trigger), 0) : 0;
    if (!trigger) {
        count_loss(LOSS_TRIGGER);
        return 0;
    }
    fill_trigger(&trigger->t, TRIGGER_TRACEPOINT, task, test.hold, about->generation);
    if (ended)
        __builtin_memcpy(&trigger->t.key, &ended->key, sizeof(trigger->t.key));
    trigger->tracepoint = about->number;
    __u32 length = about->record_length;
    barrier_var(length);
    if (length > TRACEPOINT_RECORD_MAX)
        length = TRACEPOINT_RECORD_MAX;
    trigger->length = length;
    if (bpf_probe_read_kernel(trigger->record, length, ctx))
        trigger->length = 0;
    int capture = may_capture(task, test.each);
    trigger->t.captured = capture;
    bpf_ringbuf_submit(trigger, BPF_RB_NO_WAKEUP); /* the tracepoint may hold a lock a wake-up needs */
    return capture;
}

SEC("tracepoint")
int tracepoint_hit(void *ctx)
{
    __u32 generation = *(volatile __u32 *)&rules_generation;
    __u32 key = TRACEPOINT_KEY(generation, (__u32)bpf_get_attach_cookie(ctx));
    struct tracepoint_rules *about = bpf_map_lookup_elem(&tracepoints, &key);
    if (!about || about->generation != generation)
        return SEEN_BY_OTHERS;
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 slot = 0;
    struct thread_slot *thread = slot_of_tid(BPF_CORE_READ(task, pid), &slot);
    struct ended_thread *ended = thread ? 0 : ended_of(task);
    __u64 want = about->rules;
    if (thread)
        want &= bits_of(thread, generation);
    else if (!ended)
        want &= about->everyone;
    else if (ended->rules_generation == generation)
        want &= ended->rules;
    if (!want)
        return SEEN_BY_OTHERS;
    __u64 began = own_begin();
    int capture = report_hit(ctx, task, about, want, ended);
    if (capture && ended)
        capture_ended(ctx, task, ended);
    else if (capture)
        capture_here(ctx, task);
    own_end(began, want, OWN_TRACEPOINT_HIT);
    return SEEN_BY_OTHERS;
}
