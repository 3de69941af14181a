/* SPDX-License-Identifier: GPL-2.0-only
 * The addresses that calls on sockets name, as struct sockaddr: from the caller's memory where the caller gives them,
 * from the socket where accept() need not say them. */
#pragma once

#include "bpf/task.bpf.h"

#define AF_UNIX_FAMILY 1
#define AF_INET_FAMILY 2
#define AF_INET6_FAMILY 10
#define S_IFMT_MASK 0170000
#define S_IFSOCK_MODE 0140000
#define LINK_LOCAL_MASK 0xc0ff /* fe80::/10, as the machine has its first two bytes */
#define LINK_LOCAL 0x80fe

/* struct user_msghdr (include/linux/socket.h) begins with the address and its length; so does compat_msghdr, with 4
 * bytes each. */
struct message_name {
    __u64 name;
    __u32 length;
};

struct message_name_compat {
    __u32 name;
    __u32 length;
};

/* The socket behind a descriptor of the current task; 0: it is none (any more: another thread may have closed it). */
static __always_inline struct sock *socket_of(struct task_struct *task, __u32 fd)
{
    struct fdtable *table = BPF_CORE_READ(task, files, fdt);
    if (fd >= BPF_CORE_READ(table, max_fds))
        return 0;
    struct file **files = BPF_CORE_READ(table, fd), *file = 0;
    bpf_probe_read_kernel(&file, sizeof(file), files + fd);
    if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT_MASK) != S_IFSOCK_MODE)
        return 0;
    struct socket *socket = BPF_CORE_READ(file, private_data);
    return BPF_CORE_READ(socket, sk);
}

/* The peer of a socket that was accepted, and about it: its port, above it the own one; of a local one the process that
 * has connected, as the initial pid namespace numbers it, and the own address instead of the peer's, which is nameless.
 * Returns the length. */
static __noinline __u32 accepted_peer(struct task_struct *task, __u32 fd, char *address, __u64 *about)
{
    struct sock *sk = socket_of(task, fd);
    if (!sk)
        return 0;
    __u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
    *(__u64 *)address = family;
    if (family == AF_UNIX_FAMILY && bpf_core_type_exists(struct unix_sock)) {
        struct unix_address *own = BPF_CORE_READ((struct unix_sock *)sk, addr);
        *about = BPF_CORE_READ(sk, sk_peer_pid, numbers[0].nr);
        __u32 length = own ? BPF_CORE_READ(own, len) : 0;
        if (length < sizeof(family) || length > sizeof(struct sockaddr_un))
            return sizeof(family);
        bpf_probe_read_kernel(address, length, own->name);
        return length;
    }
    if (family != AF_INET_FAMILY && family != AF_INET6_FAMILY)
        return sizeof(family);
    __u16 port = BPF_CORE_READ(sk, __sk_common.skc_dport), own_port = BPF_CORE_READ(sk, __sk_common.skc_num);
    *(__u16 *)(address + 2) = port;
    *about = (__u64)own_port << 16 | __builtin_bswap16(port);
    if (family == AF_INET_FAMILY) { /* struct sockaddr_in */
        *(__u32 *)(address + 4) = BPF_CORE_READ(sk, __sk_common.skc_daddr);
        *(__u64 *)(address + 8) = 0;
        return 16;
    }
    if (!bpf_core_field_exists(sk->__sk_common.skc_v6_daddr))
        return sizeof(family);
    *(__u32 *)(address + 4) = 0; /* struct sockaddr_in6: the flow label */
    BPF_CORE_READ_INTO((struct in6_addr *)(address + 8), sk, __sk_common.skc_v6_daddr);
    *(__u32 *)(address + 24) = 0;
    if ((*(__u16 *)(address + 8) & LINK_LOCAL_MASK) == LINK_LOCAL) /* as getpeername(2): only these have a scope */
        *(__u32 *)(address + 24) = BPF_CORE_READ(sk, __sk_common.skc_bound_dev_if);
    return 28;
}
