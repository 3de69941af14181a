/* SPDX-License-Identifier: GPL-2.0-only
 * Which files watched processes map code of: the daemon keeps copies of what unwinding needs, for the file may be gone
 * when the process dies.
 *
 * They are seen where mmap(2) returns and at the first call of a program; a function of the kernel that sees each
 * mapping (perf_event_mmap) can be attached to only where the kernel has a function tracer.  A file is told of once. */
#pragma once

#include "bpf/shares.bpf.h"

#define MAPPED_EXEC 0x4       /* PROT_EXEC */
#define MAPPED_ANONYMOUS 0x20 /* MAP_ANONYMOUS: the descriptor means nothing */

/* Of files that the daemon has been told of, those that were mapped last. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 8192);
    __type(key, struct module_key);
    __type(value, __u8);
} modules_told __weak SEC(".maps");

/* The file behind a descriptor of the current process, which another of its threads may have closed meanwhile. */
static __always_inline struct file *file_of_descriptor(struct task_struct *task, __u32 descriptor)
{
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    struct file **files = BPF_CORE_READ(table, fd), *file = 0;
    if (descriptor < BPF_CORE_READ(table, max_fds))
        bpf_probe_read_kernel(&file, sizeof(file), files + descriptor);
    return file;
}

/* start: where its code is mapped; 0: the process begins to run it, and has mapped others with it. */
static __noinline int tell_of_module(struct task_struct *task, struct file *file, __u64 start)
{
    struct module_key key = {};
    struct inode *inode = BPF_CORE_READ(file, f_inode);
    key.inode = BPF_CORE_READ(inode, i_ino);
    if (!key.inode)
        return 0;
    key.size = BPF_CORE_READ(inode, i_size);
    key.device = BPF_CORE_READ(inode, i_sb, s_dev);
    key.generation = BPF_CORE_READ(inode, i_generation);
    if (bpf_map_lookup_elem(&modules_told, &key))
        return 0;
    if (!may_send(task, sizeof(struct module_event), SHARE_OTHERS))
        return 0; /* told of when it is mapped again */
    __u8 told = 1;
    if (bpf_map_update_elem(&modules_told, &key, &told, BPF_NOEXIST))
        return 0;
    struct module_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
    if (!event) {
        bpf_map_delete_elem(&modules_told, &key);
        count_loss(LOSS_WATCH_EVENT);
        return 0;
    }
    fill_header(&event->h, EVENT_MODULE, task);
    event->key = key;
    event->start = start;
    event->uid = BPF_CORE_READ(task, cred, uid.val);
    event->pad = 0;
    bpf_ringbuf_submit(event, BPF_RB_FORCE_WAKEUP);
    return 0;
}
