// SPDX-License-Identifier: GPL-2.0-only
// ZFS syncs by kprobe: works with every build of the module, for it needs the symbol alone.
//
// Sections without a function: libbpf loads them and attaches nothing, so a kernel
// without kprobes takes them as well (the program type is that of uprobes); the daemon
// attaches them when there is a zfs module.  A kretprobe has max(10, 2 × CPUs)
// instances (kernel/kprobes.c, register_kretprobe): with more pools than that in a sync
// at one time a return is missed, and the entry looks in flight until that pool's next
// sync.  The daemon asks the kstat before it believes in a stall.
#include "bpf/txg.bpf.h"

char LICENSE[] SEC("license") = "GPL";

SEC("kprobe")
int BPF_KPROBE(txg_enter, const void *spa, __u64 txg)
{
    txg_begin(spa, txg);
    return 0;
}

SEC("kretprobe")
int txg_leave(struct pt_regs *regs)
{
    txg_end();
    return 0;
}
