/* SPDX-License-Identifier: GPL-2.0-only
 * Facts of a task_struct, one accessor each; where a field moved between kernels the
 * accessor names the change.  All reads are probe reads: nothing here is trusted. */
#pragma once

#include "bpf/maps.bpf.h"

#define TS_COMPAT_FLAG 0x0002 /* arch/x86/include/asm/thread_info.h: 32-bit syscall active */

static __always_inline void copy_comm(char *to, struct task_struct *task)
{
    if (bpf_core_read(to, COMM_LEN, &task->comm))
        to[0] = 0;
}

static __always_inline struct task_struct *leader_of(struct task_struct *task)
{
    return BPF_CORE_READ(task, group_leader);
}

#define PF_IO_WORKER 0x00000010 /* include/linux/sched.h */

/* A thread that io_uring has made in the process: its registers are a copy of its maker's (kernel/fork.c,
 * create_io_thread). */
static __always_inline __u32 is_worker(struct task_struct *task)
{
    return (BPF_CORE_READ(task, flags) & PF_IO_WORKER) != 0;
}

/* 6.15: kernfs_node.parent became __parent, under RCU (commit 741c10b096bc). */
struct kernfs_node___parent {
    struct kernfs_node *parent;
} __attribute__((preserve_access_index));
struct kernfs_node___rcu_parent {
    struct kernfs_node *__parent;
} __attribute__((preserve_access_index));

static __always_inline struct kernfs_node *kernfs_parent_of(struct kernfs_node *node)
{
    struct kernfs_node___rcu_parent *newer = (void *)node;
    struct kernfs_node___parent *older = (void *)node;
    if (bpf_core_field_exists(newer->__parent))
        return BPF_CORE_READ(newer, __parent);
    return BPF_CORE_READ(older, parent);
}

/* 6.2: mm_rss_stat (one atomic each) became an array of percpu_counter (commit
 * f1a7941243c1).  Of a percpu_counter this is the central count, which lags the truth
 * by at most a batch a CPU. */
struct mm_rss_stat___atomic {
    atomic_long_t count[4];
} __attribute__((preserve_access_index));
struct mm_struct___atomic_rss {
    struct mm_rss_stat___atomic rss_stat;
} __attribute__((preserve_access_index));
struct percpu_counter___rss {
    __s64 count;
} __attribute__((preserve_access_index));
struct mm_struct___percpu_rss {
    struct percpu_counter___rss rss_stat[4];
} __attribute__((preserve_access_index));

static __always_inline __u64 rss_counter(struct mm_struct *mm, int which)
{
    __s64 pages = 0;
    struct mm_struct___percpu_rss *newer = (void *)mm;
    struct mm_struct___atomic_rss *older = (void *)mm;
    if (bpf_core_type_exists(struct mm_rss_stat___atomic)) {
        /* constant index: each is a relocation of its own */
        if (which == 0)
            pages = BPF_CORE_READ(older, rss_stat.count[0].counter);
        else if (which == 1)
            pages = BPF_CORE_READ(older, rss_stat.count[1].counter);
        else if (which == 2)
            pages = BPF_CORE_READ(older, rss_stat.count[2].counter);
        else
            pages = BPF_CORE_READ(older, rss_stat.count[3].counter);
    } else {
        if (which == 0)
            pages = BPF_CORE_READ(newer, rss_stat[0].count);
        else if (which == 1)
            pages = BPF_CORE_READ(newer, rss_stat[1].count);
        else if (which == 2)
            pages = BPF_CORE_READ(newer, rss_stat[2].count);
        else
            pages = BPF_CORE_READ(newer, rss_stat[3].count);
    }
    return pages < 0 ? 0 : (__u64)pages;
}

static __always_inline __u64 rss_pages(struct mm_struct *mm)
{
    /* MM_FILEPAGES, MM_ANONPAGES, MM_SHMEMPAGES (include/linux/mm_types_task.h); 2 is swap */
    return rss_counter(mm, 0) + rss_counter(mm, 1) + rss_counter(mm, 3);
}

/* 6.18: mm->flags became a bitmap type (mm_flags_t); its first word is what it was. */
struct mm_struct___bitmap_flags {
    struct {
        unsigned long __mm_flags[1];
    } flags;
} __attribute__((preserve_access_index));
struct mm_struct___word_flags {
    unsigned long flags;
} __attribute__((preserve_access_index));

/* SUID_DUMP_* (include/linux/sched/coredump.h): the low two bits. */
static __always_inline __u32 dumpable_of(struct mm_struct *mm)
{
    struct mm_struct___bitmap_flags *newer = (void *)mm;
    struct mm_struct___word_flags *older = (void *)mm;
    unsigned long word = 0;
    if (bpf_core_field_exists(older->flags))
        word = BPF_CORE_READ(older, flags);
    else
        bpf_core_read(&word, sizeof(word), &newer->flags);
    return word & 3;
}

static __always_inline __u64 cgroup_id_of(struct task_struct *task)
{
    return BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
}

/* Names from the innermost cgroup outwards; the root has none. */
static __always_inline __u32 cgroup_names(struct task_struct *task, char (*part)[CGROUP_PART_LEN], __u32 *cut)
{
    struct kernfs_node *node = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn);
    __u32 parts = 0;
    *cut = 0;
    for (int level = 0; level < CGROUP_PARTS; level++) {
        struct kernfs_node *parent = kernfs_parent_of(node);
        if (!parent)
            return parts;
        long length = bpf_probe_read_kernel_str(part[level], CGROUP_PART_LEN, BPF_CORE_READ(node, name));
        if (length < 0)
            part[level][0] = 0;
        if (length == CGROUP_PART_LEN)
            *cut = 1;
        parts = level + 1;
        node = parent;
    }
    if (kernfs_parent_of(node))
        *cut = 1;
    return parts;
}

/* The executable's path, last component first, across mounts up to the root of the
 * mount namespace.  A bpf_loop, for the verifier walks its body once. */
struct path_walk {
    struct kernel_path *path;
    struct dentry *dentry;
    struct mount *mount;
    __u32 parts;
    __u32 whole;
};

static long walk_up(__u32 step, struct path_walk *walk)
{
    struct dentry *dentry = walk->dentry;
    struct mount *mount = walk->mount;
    if (dentry == BPF_CORE_READ(mount, mnt.mnt_root)) {
        struct mount *parent = BPF_CORE_READ(mount, mnt_parent);
        if (parent == mount) {
            walk->whole = 1;
            return 1;
        }
        walk->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
        walk->mount = parent;
        return 0;
    }
    struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
    __u32 part = walk->parts;
    struct kernel_path *path = walk->path;
    /* detached (memfd, unmounted), or too deep, or too long */
    if (parent == dentry || part >= PATH_PARTS || path->length >= PATH_NAMES_LEN)
        return 1;
    const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
    __u64 at = path->length; /* 6.1 forgets a bound over a spill, so it is set anew next to its use */
    barrier_var(at);
    at &= PATH_NAMES_LEN - 1;
    long length = bpf_probe_read_kernel_str(&path->names[at], PATH_PART_LEN, name);
    if (length <= 0)
        return 1;
    path->length = at + length;
    walk->parts = part + 1;
    walk->dentry = parent;
    return 0;
}

static __always_inline void exe_path(struct task_struct *task, struct kernel_path *path)
{
    struct file *file = BPF_CORE_READ(task, mm, exe_file);
    path->parts = 0;
    path->cut = 0;
    path->length = 0;
    if (!file)
        return;
    struct path_walk walk = {
        .path = path,
        .dentry = BPF_CORE_READ(file, f_path.dentry),
        .mount = (void *)BPF_CORE_READ(file, f_path.mnt) - bpf_core_field_offset(struct mount, mnt),
    };
    bpf_loop(PATH_PARTS + 8, walk_up, &walk, 0);
    path->parts = walk.parts;
    if (!walk.whole)
        path->cut = 1;
}

static __always_inline void fill_header(struct event_header *h, __u32 kind, struct task_struct *task)
{
    h->kind = kind;
    h->layout = EVENT_LAYOUT;
    h->t_ns = bpf_ktime_get_ns();
    h->tgid = task->tgid;
    h->tid = task->pid;
    h->process_start_boot_ns = BPF_CORE_READ(task, group_leader, start_boottime);
    h->thread_start_boot_ns = BPF_CORE_READ(task, start_boottime);
    struct mm_struct *mm = BPF_CORE_READ(task, mm);
    h->start_code = BPF_CORE_READ(mm, start_code);
    h->start_stack = BPF_CORE_READ(mm, start_stack);
    if (mm && !h->start_stack) /* the program is being loaded (fs/binfmt_elf.c): it is none that has run, program.h */
        h->start_stack = 1;
}

/* Of a task that goes on meanwhile.  mm: its address space before the header was filled.  If it is another by now, the
 * task has executed, and what was read is of no program. */
static __always_inline void recheck_header(struct event_header *h, struct task_struct *task, struct mm_struct *mm)
{
    struct mm_struct *now = BPF_CORE_READ(task, mm);
    if (now && now != mm) { /* without one it has ended, and executes nothing any more */
        h->start_code = 0;
        h->start_stack = 1;
    }
}
