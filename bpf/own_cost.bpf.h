/* SPDX-License-Identifier: GPL-2.0-only
 * What a program that runs for everybody takes for the processes rules are about, apart from what it takes for
 * strangers: a rule is not to go off for what others do.  Counted only while the kernel counts run times; a stranger,
 * who is let go before own_begin(), pays nothing for it at any time. */
#pragma once

#include "bpf/maps.bpf.h"

static __always_inline __u64 own_begin(void)
{
    return own_counted ? bpf_ktime_get_ns() : 0;
}

/* began: what own_begin() said; rules: conditions that the run served. */
static __noinline int own_end(__u64 began, __u64 rules, __u32 program)
{
    if (!began)
        return 0;
    struct own_key key = {.rules = rules, .program = program};
    struct own_cost *cost = bpf_map_lookup_elem(&own_costs, &key);
    if (!cost) {
        struct own_cost first = {};
        bpf_map_update_elem(&own_costs, &key, &first, BPF_NOEXIST);
        cost = bpf_map_lookup_elem(&own_costs, &key);
        if (!cost)
            return 0;
    }
    cost->runs += 1;
    cost->ns += bpf_ktime_get_ns() - began;
    return 0;
}
