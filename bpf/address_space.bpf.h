/* SPDX-License-Identifier: GPL-2.0-only
 * The mappings of a process that dies at once: after kill -9, an OOM kill, or a crash
 * nobody dumps, /proc/PID/maps is gone before user space could look, and without it no
 * address means anything.
 *
 * bpf_find_vma takes mmap_lock, which with interrupts off, as signal_deliver runs, it can do
 * once and then not until an irq_work has given it back (kernel/bpf/mmap_unlock_work.h), and
 * not at all while another thread holds it; the open-coded VMA iterator came with 6.7.  So the tree itself is read:
 * mm->mm_mt, a maple tree since 6.1 (include/linux/maple_tree.h).  signal_deliver runs
 * with interrupts off, so no RCU grace period ends meanwhile and no node is reused; and
 * all reads are probe reads, which at worst fail.  A mapping another thread changes at
 * this very instant may be missed, as it may in /proc.
 *
 * One flat loop of small steps (go down a level, take a slot, take a path component),
 * its state in per-CPU memory: callbacks may nest no deeper, and 6.1 gives a callback
 * nothing but stack to work on. */
#pragma once

#include "bpf/watch.bpf.h"

#define MAPS_STEPS_MAX 65536 /* some 8,000 mappings; beyond, the event says it was cut */
#define VM_WRITE_FLAG 2
#define VM_MAYSHARE_FLAG 0x80 /* what /proc prints as 's' (show_map_vma, fs/proc/task_mmu.c) */
#define TREE_DEPTH_MAX 16     /* of a tree with ten slots a node: more mappings than there can be */
#define NODE_WORDS 32         /* a node is 256 bytes (MAPLE_NODE_SLOTS) */

enum walk_state { WALK_DESCEND = 0, WALK_SLOTS, WALK_PATH };

struct maps_walk {
    __u64 owner;      /* task it is done for: elsewhere than in signal_deliver another may take its place */
    __u64 root, node; /* encoded: address | type << 3 | flags (mte_node_type) */
    __u64 index;      /* the leaf that holds it is looked for */
    __u64 node_max;   /* last index of `node` */
    __u32 state, slot;
    __u32 after_path; /* state to go on with */
    __u32 finished;
    __u32 sent;  /* entries of the last part, which stay readable until the next walk */
    __u32 share; /* of the user */
    __u64 file;  /* struct file * of the entry before: its path need not be taken again */
    struct dentry *dentry;
    struct mount *mount;
    __u64 words[NODE_WORDS];
    struct maps_event event;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct maps_walk);
} maps_scratch __weak SEC(".maps");

static __always_inline struct maps_walk *maps_walk_state(void)
{
    __u32 zero = 0;
    return bpf_map_lookup_elem(&maps_scratch, &zero);
}

static __always_inline void send_maps(struct maps_walk *walk, __u32 more)
{
    struct maps_event *event = &walk->event;
    __u64 count = event->count;
    event->more = more;
    barrier_var(count);
    if (count > MAPS_ENTRIES)
        count = MAPS_ENTRIES;
    walk->sent = count;
    __u64 bytes = offsetof(struct maps_event, entry) + count * sizeof(struct maps_entry);
    if (!may_add_to_death(walk->share, bytes) || bpf_ringbuf_output(&events, event, bytes, BPF_RB_NO_WAKEUP))
        count_loss(LOSS_MAPS);
    event->part++;
    event->count = 0;
    event->names_length = 0;
    walk->file = 0;
}

/* enum maple_type, and the words of a node: its parent, pivots, slots. */
#define NODE_ADDRESS(encoded) ((encoded) & ~255ULL)
#define NODE_TYPE(encoded) (((encoded) >> 3) & 15)

static __always_inline long descend(struct maps_walk *walk)
{
    __u32 type = NODE_TYPE(walk->node);
    if (bpf_probe_read_kernel(walk->words, sizeof(walk->words), (void *)NODE_ADDRESS(walk->node)))
        return 1;
    int wide = type == maple_arange_64; /* also keeps gaps, so it has fewer slots */
    __u32 pivots = wide ? sizeof(((struct maple_arange_64 *)0)->pivot) / 8 : NODE_WORDS / 2 - 1;
    __u32 slot = 0;
    __u64 max = walk->node_max;
    for (__u32 i = 0; i < NODE_WORDS / 2 - 1; i++) {
        if (i >= pivots)
            break;
        __u64 pivot = walk->words[1 + i];
        if (i && !pivot) /* unused: this slot is the last */
            break;
        if (pivot >= walk->index) {
            max = pivot;
            break;
        }
        slot = i + 1;
    }
    if (type == maple_leaf_64) {
        walk->slot = slot;
        walk->state = WALK_SLOTS;
        return 0;
    }
    if (!wide && type != maple_range_64)
        return 1;
    walk->node = walk->words[(1 + pivots + slot) & (NODE_WORDS - 1)];
    walk->node_max = max;
    return NODE_ADDRESS(walk->node) == 0;
}

static __always_inline void begin_path(struct maps_walk *walk, struct maps_entry *entry, struct file *file)
{
    entry->path = walk->event.names_length;
    struct dentry *dentry = BPF_CORE_READ(file, f_path.dentry);
    walk->dentry = dentry;
    walk->mount = (void *)BPF_CORE_READ(file, f_path.mnt) - bpf_core_field_offset(struct mount, mnt);
    if (!BPF_CORE_READ(dentry, d_hash.pprev)) /* d_unhashed() */
        entry->flags |= MAPS_DELETED;
    walk->after_path = walk->state;
    walk->state = WALK_PATH;
}

static __always_inline void take_mapping(struct maps_walk *walk, struct vm_area_struct *vma)
{
    struct maps_event *event = &walk->event;
    if (event->count >= MAPS_ENTRIES || event->names_length > MAPS_NAMES_LEN - MAPS_PATH_ROOM)
        send_maps(walk, 1);
    __u32 count = event->count;
    if (count >= MAPS_ENTRIES)
        return;
    struct maps_entry *entry = &event->entry[count];
    struct maps_entry *before = &event->entry[(count - 1) & (MAPS_ENTRIES - 1)];
    event->count = count + 1;
    entry->start = BPF_CORE_READ(vma, vm_start);
    entry->end = BPF_CORE_READ(vma, vm_end);
    entry->page_offset = BPF_CORE_READ(vma, vm_pgoff);
    __u64 flags = BPF_CORE_READ(vma, vm_flags);
    entry->flags = (flags & 7) | (flags & VM_MAYSHARE_FLAG ? MAPS_SHARED : 0);
    entry->parts = 0;
    entry->path = 0;
    entry->inode = 0;
    entry->device = 0;
    struct file *file = BPF_CORE_READ(vma, vm_file);
    if (!file) {
        walk->file = 0; /* what follows has no path before it to share */
        return;
    }
    entry->inode = BPF_CORE_READ(file, f_inode, i_ino);
    entry->device = BPF_CORE_READ(file, f_inode, i_sb, s_dev);
    if (walk->file == (__u64)file) {
        entry->path = before->path;
        entry->parts = before->parts;
        entry->flags |= before->flags & (MAPS_DELETED | MAPS_PATH_CUT);
        return;
    }
    begin_path(walk, entry, file);
    walk->file = (__u64)file;
}

static __always_inline long take_tree_slot(struct maps_walk *walk)
{
    __u32 slot = walk->slot & (NODE_WORDS / 2 - 1);
    struct vm_area_struct *vma = (void *)walk->words[NODE_WORDS / 2 + slot];
    __u64 pivot = slot < NODE_WORDS / 2 - 1 ? walk->words[1 + slot] : walk->node_max;
    if (slot && !pivot)
        pivot = walk->node_max;
    walk->slot = slot + 1;
    if (pivot >= walk->node_max) {
        if (walk->node_max == ~0ULL)
            walk->finished = 1;
        walk->index = walk->node_max + 1;
        walk->node = walk->root;
        walk->node_max = ~0ULL;
        walk->state = WALK_DESCEND;
    }
    if (vma && !((__u64)vma & 3)) /* bits 0 and 1: no pointer (xa_is_value, xa_is_internal) */
        take_mapping(walk, vma);
    return walk->finished && walk->state != WALK_PATH ? 1 : 0;
}

/* As walk_up() in task.bpf.h: last component first. */
static __always_inline long take_path_part(struct maps_walk *walk)
{
    struct maps_event *event = &walk->event;
    struct maps_entry *entry = &event->entry[(event->count - 1) & (MAPS_ENTRIES - 1)];
    struct dentry *dentry = walk->dentry;
    struct mount *mount = walk->mount;
    struct dentry *parent = BPF_CORE_READ(dentry, d_parent);
    __u32 at = event->names_length;
    int root = dentry == BPF_CORE_READ(mount, mnt.mnt_root);
    struct mount *outer = BPF_CORE_READ(mount, mnt_parent);
    if (root && outer != mount) {
        walk->dentry = BPF_CORE_READ(mount, mnt_mountpoint);
        walk->mount = outer;
        return 0;
    }
    if ((root || parent == dentry) && entry->parts)
        goto over;
    if (entry->parts >= PATH_PARTS || at > MAPS_NAMES_LEN - MAPS_PART_LEN) {
        entry->flags |= MAPS_PATH_CUT;
        goto over;
    }
    if (root) /* the root directory itself */
        goto over;
    const unsigned char *name = BPF_CORE_READ(dentry, d_name.name);
    __u64 offset = at; /* 6.1 forgets a bound over a spill, so it is set anew next to its use */
    barrier_var(offset);
    offset &= MAPS_NAMES_LEN - 1;
    long length = bpf_probe_read_kernel_str(&event->names[offset], MAPS_PART_LEN, name);
    if (length <= 0) {
        entry->flags |= MAPS_PATH_CUT;
        goto over;
    }
    event->names_length = at + length;
    entry->parts++;
    if (parent == dentry) /* in no directory: a memfd and the like */
        goto over;
    walk->dentry = parent;
    return 0;
over:
    walk->state = walk->after_path;
    return walk->finished ? 1 : 0;
}

static long walk_step(__u32 step, void *unused)
{
    struct maps_walk *walk = maps_walk_state();
    if (!walk)
        return 1;
    if (walk->state == WALK_PATH)
        return take_path_part(walk);
    if (walk->state == WALK_SLOTS)
        return take_tree_slot(walk);
    return descend(walk);
}

static long find_step(__u32 step, void *unused)
{
    struct maps_walk *walk = maps_walk_state();
    if (!walk || walk->state != WALK_DESCEND)
        return 1;
    return descend(walk);
}

static __always_inline void begin_walk(struct maps_walk *walk, struct task_struct *task, __u64 index)
{
    walk->owner = (__u64)task;
    walk->root = (__u64)BPF_CORE_READ(task, mm, mm_mt.ma_root);
    walk->node = walk->root;
    walk->node_max = ~0ULL;
    walk->index = index;
    walk->state = WALK_DESCEND;
}

/* The mapping an address lies in; null: in none. */
static __noinline struct vm_area_struct *mapping_at(struct task_struct *task, __u64 address)
{
    struct maps_walk *walk = maps_walk_state();
    if (!walk)
        return 0;
    begin_walk(walk, task, address);
    if ((walk->root & 3) != 2)
        return 0;
    bpf_loop(TREE_DEPTH_MAX, find_step, (void *)0, 0);
    if (walk->state != WALK_SLOTS)
        return 0;
    struct vm_area_struct *vma = (void *)walk->words[NODE_WORDS / 2 + (walk->slot & (NODE_WORDS / 2 - 1))];
    if (walk->owner != (__u64)task || !vma || (__u64)vma & 3 || address < BPF_CORE_READ(vma, vm_start) ||
        address >= BPF_CORE_READ(vma, vm_end))
        return 0;
    return vma;
}

/* Whether an address lies in a file's mapping that nobody can write to: its bytes are in the file.  Of the part
 * sent last, which is all of it in all but large processes; elsewhere the answer is no. */
static __always_inline int in_read_only_file(__u64 address)
{
    struct maps_walk *walk = maps_walk_state();
    if (!walk || !walk->finished)
        return 0;
    __u32 low = 0, high = walk->sent;
    for (int i = 0; i < 9 && low < high; i++) { /* 2^8 entries */
        __u32 middle = (low + high) / 2;
        struct maps_entry *entry = &walk->event.entry[middle & (MAPS_ENTRIES - 1)];
        if (address < entry->start)
            high = middle;
        else if (address >= entry->end)
            low = middle + 1;
        else
            return entry->inode && !(entry->flags & VM_WRITE_FLAG);
    }
    return 0;
}

/* Sends all mappings of the task's address space, in as many events as it takes. */
static __noinline int capture_maps(struct task_struct *task, __u32 share)
{
    struct maps_walk *walk = maps_walk_state();
    if (!walk)
        return 0;
    fill_header(&walk->event.h, EVENT_MAPS, task);
    begin_walk(walk, task, 0);
    walk->share = share;
    walk->finished = 0;
    walk->file = 0;
    walk->event.count = 0;
    walk->event.names_length = 0;
    walk->event.part = 0;
    walk->event.cut = 0;
    if ((walk->root & 3) != 2) /* xa_is_node: a tree of less than two mappings has no node */
        return 0;
    bpf_loop(MAPS_STEPS_MAX, walk_step, (void *)0, 0);
    walk->event.cut = !walk->finished;
    send_maps(walk, 0);
    return 1;
}
