/* SPDX-License-Identifier: GPL-2.0-only
 * Who it was that died, where the ring buffer has no room for its death_event.
 *
 * The daemon makes that incident from the process table when it comes to it, and by then /proc has nothing of the
 * process any more.  What tells rules and readers who it was is kept beside the table until the daemon has taken it:
 * its executable, cgroup, users, namespaces, and the crashed thread's registers. */
#pragma once

#include "bpf/capture.bpf.h"

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, KEPT_DEATHS);
    __type(key, __u32); /* tgid */
    __type(value, struct kept_death);
} kept_deaths __weak SEC(".maps");

/* Where one is made before it is put into the map whole. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct kept_death);
} kept_scratch __weak SEC(".maps");

__u32 deaths_kept __weak = 0; /* entries of kept_deaths */

static __noinline int keep_death(struct task_struct *task, struct capture *capture)
{
    __u32 zero = 0, tgid = BPF_CORE_READ(task, tgid), index = capture->share;
    struct kept_death *kept = bpf_map_lookup_elem(&kept_scratch, &zero);
    struct user_share *share = share_at(index);
    if (!kept)
        return 0;
    if (deaths_kept >= KEPT_DEATHS || share->kept >= HELD_FACTOR * (KEPT_DEATHS - deaths_kept)) {
        count_loss(LOSS_KEPT);
        return 0;
    }
    struct task_struct *leader = BPF_CORE_READ(task, group_leader);
    kept->start_boot_ns = BPF_CORE_READ(leader, start_boottime);
    kept->share = index;
    copy_comm(kept->comm, task);
    copy_comm(kept->leader_comm, leader);
    kept->uid = BPF_CORE_READ(task, cred, uid.val);
    kept->gid = BPF_CORE_READ(task, cred, gid.val);
    kept->euid = BPF_CORE_READ(task, cred, euid.val);
    kept->threads = BPF_CORE_READ(task, signal, nr_threads);
    kept->delivered = capture->delivered;
    kept->dumpable = dumpable_of(BPF_CORE_READ(task, mm));
    struct nsproxy *namespaces = BPF_CORE_READ(task, nsproxy);
    kept->mnt_ns = BPF_CORE_READ(namespaces, mnt_ns, ns.inum);
    kept->net_ns = BPF_CORE_READ(namespaces, net_ns, ns.inum);
    kept->cgroup_ns = BPF_CORE_READ(namespaces, cgroup_ns, ns.inum);
    kept->user_ns = BPF_CORE_READ(task, cred, user_ns, ns.inum);
    struct file *file = BPF_CORE_READ(task, mm, exe_file);
    kept->exe_inode = file ? BPF_CORE_READ(file, f_inode, i_ino) : 0;
    kept->exe_device = file ? BPF_CORE_READ(file, f_inode, i_sb, s_dev) : 0;
    exe_path(task, &kept->exe);
    kept->cgroup_id = cgroup_id_of(task);
    kept->cgroup_parts = cgroup_names(task, kept->cgroup, &kept->cgroup_cut);
    copy_registers(&kept->regs, user_regs(task), task);
    struct kept_death *before = bpf_map_lookup_elem(&kept_deaths, &tgid);
    if (before) { /* an earlier process with this id, of which the daemon has not come to know */
        __sync_fetch_and_sub(&share_at(before->share)->kept, 1);
        __sync_fetch_and_sub(&deaths_kept, 1);
    }
    if (bpf_map_update_elem(&kept_deaths, &tgid, kept, BPF_ANY)) {
        count_loss(LOSS_KEPT);
        return 0;
    }
    __sync_fetch_and_add(&share->kept, 1);
    __sync_fetch_and_add(&deaths_kept, 1);
    return 1;
}
