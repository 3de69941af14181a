// SPDX-License-Identifier: GPL-2.0-only
// ZFS syncs by fentry and fexit: no instances that could run out, as a kretprobe's can.
//
// An object of its own: the programs can be loaded only while a zfs module with BTF is
// there, for the function is looked up in it at load (libbpf, find_kernel_btf_id), and one
// program that does not load takes its whole object down.  Debian's zfs-dkms makes no
// BTF; other builds do.  Shares the recorder's maps by descriptor.  While attached it
// holds the module ("modprobe -r: in use"; kernel/bpf/trampoline.c), so the daemon has it
// attached only while there is a pool.
#include "bpf/txg.bpf.h"

char LICENSE[] SEC("license") = "GPL";

SEC("fentry/spa_sync")
int BPF_PROG(txg_fentry_enter, const void *spa, __u64 txg)
{
    txg_begin(spa, txg);
    return 0;
}

SEC("fexit/spa_sync")
int BPF_PROG(txg_fentry_leave)
{
    txg_end();
    return 0;
}
