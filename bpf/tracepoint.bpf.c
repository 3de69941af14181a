// SPDX-License-Identifier: GPL-2.0-only
// Any tracepoint of the kernel, by name: one program, attached once a rule with the
// condition's bit and id as its cookie: the id tells whether the bit still means this condition.
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

static __always_inline void see_hit(void *ctx)
{
    __u64 cookie = bpf_get_attach_cookie(ctx);
    __u32 bit = cookie & (RULE_BITS - 1), id = cookie >> TRACEPOINT_ID_SHIFT;
    __u32 generation = *(volatile __u32 *)&rules_generation;
    struct condition_settings *settings = condition_of(generation, bit);
    if (!settings || settings->generation != generation || (settings->id && settings->id != id))
        return;
    struct task_struct *task = bpf_get_current_task_btf();
    __u32 slot = 0;
    struct thread_slot *thread = slot_of_tid(BPF_CORE_READ(task, pid), &slot);
    if (thread ? !((bits_of(thread, generation) >> bit) & 1) : !settings->everyone)
        return;
    struct record_test test = {.settings = settings, .record = ctx, .passed = 1};
    for (__u32 i = 0; i < FILTER_CLAUSES && test.passed; i++)
        if (test_clause(i, &test))
            break;
    if (!test.passed)
        return;
    struct tracepoint_trigger *trigger = bpf_ringbuf_reserve(&events, sizeof(*trigger), 0);
    if (!trigger) {
        count_loss(LOSS_TRIGGER);
        return;
    }
    fill_trigger(&trigger->t, TRIGGER_TRACEPOINT, task, 1ULL << bit, generation);
    trigger->which = id;
    __u32 length = settings->record_length;
    barrier_var(length);
    if (length > TRACEPOINT_RECORD_MAX)
        length = TRACEPOINT_RECORD_MAX;
    trigger->length = length;
    if (bpf_probe_read_kernel(trigger->record, length, ctx))
        trigger->length = 0;
    int capture = may_capture(settings->each);
    trigger->t.captured = capture;
    bpf_ringbuf_submit(trigger, BPF_RB_NO_WAKEUP); /* the tracepoint may hold a lock a wake-up needs */
    if (capture)
        capture_here(ctx, task);
}

SEC("tracepoint")
int tracepoint_hit(void *ctx)
{
    see_hit(ctx);
    return SEEN_BY_OTHERS;
}
