/* SPDX-License-Identifier: GPL-2.0-only
 * Comparisons without branches: what is compared is as good as random, and each branch doubles what the verifier walks.
 */
#pragma once

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

/* For the verifier: whatever it knew of the value is forgotten, and so for the compiler. */
#define OPAQUE(value) asm volatile("" : "+r"(value))

/* 1 if any bit of the word is set, without a branch: what a call needs is as good as random. */
static __always_inline __u64 is_set(__u32 word)
{
    __u64 wide = word;
    OPAQUE(wide);
    return (0 - wide) >> 63;
}

/* 1 if a is less than b; both are small. */
static __always_inline __u64 is_less(__u64 a, __u64 b)
{
    __u64 difference = a - b;
    OPAQUE(difference);
    return difference >> 63;
}

/* 1 if they are the same. */
static __always_inline __u64 is_equal(__u32 a, __u32 b)
{
    return 1 - is_set(a ^ b);
}
