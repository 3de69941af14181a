#include "rules/conditions/syscall_groups.h"

namespace incident::rules {
namespace {

// Calls that take a path.
constexpr std::string_view file[] = {"access",        "chdir",        "chmod",
                                     "chown",         "chroot",       "creat",
                                     "execve",        "execveat",     "faccessat",
                                     "faccessat2",    "fchmodat",     "fchmodat2",
                                     "fchownat",      "futimesat",    "getcwd",
                                     "getxattr",      "lchown",       "lgetxattr",
                                     "link",          "linkat",       "listxattr",
                                     "llistxattr",    "lremovexattr", "lsetxattr",
                                     "lstat",         "mkdir",        "mkdirat",
                                     "mknod",         "mknodat",      "mount",
                                     "mount_setattr", "move_mount",   "name_to_handle_at",
                                     "newfstatat",    "open",         "open_by_handle_at",
                                     "open_tree",     "openat",       "openat2",
                                     "pivot_root",    "readlink",     "readlinkat",
                                     "removexattr",   "rename",       "renameat",
                                     "renameat2",     "rmdir",        "setxattr",
                                     "stat",          "statfs",       "statx",
                                     "swapoff",       "swapon",       "symlink",
                                     "symlinkat",     "truncate",     "umount2",
                                     "unlink",        "unlinkat",     "utime",
                                     "utimensat",     "utimes"};

// Sockets and what goes through them.
constexpr std::string_view network[] = {"accept",     "accept4", "bind",       "connect",  "getpeername", "getsockname",
                                        "getsockopt", "listen",  "recvfrom",   "recvmmsg", "recvmsg",     "sendmmsg",
                                        "sendmsg",    "sendto",  "setsockopt", "shutdown", "socket",      "socketpair"};

// Making processes, becoming another program, waiting.
constexpr std::string_view process[] = {"clone",
                                        "clone3",
                                        "execve",
                                        "execveat",
                                        "fork",
                                        "kill",
                                        "pidfd_open",
                                        "pidfd_send_signal",
                                        "prctl",
                                        "rt_sigqueueinfo",
                                        "rt_tgsigqueueinfo",
                                        "setns",
                                        "tgkill",
                                        "tkill",
                                        "unshare",
                                        "vfork",
                                        "wait4",
                                        "waitid"};

// The address space.
constexpr std::string_view memory[] = {
    "brk",           "madvise", "mbind",      "memfd_create", "memfd_secret",  "migrate_pages",   "mincore",
    "mlock",         "mlock2",  "mlockall",   "mmap",         "move_pages",    "mprotect",        "mremap",
    "msync",         "munlock", "munlockall", "munmap",       "pkey_mprotect", "process_madvise", "remap_file_pages",
    "set_mempolicy", "shmat",   "shmdt"};

// Reading and writing through a descriptor.
constexpr std::string_view io[] = {"copy_file_range", "io_getevents", "io_pgetevents", "io_submit", "io_uring_enter",
                                   "pread64",         "preadv",       "preadv2",       "pwrite64",  "pwritev",
                                   "pwritev2",        "read",         "readahead",     "readv",     "sendfile",
                                   "splice",          "tee",          "vmsplice",      "write",     "writev"};

// Making data durable.
constexpr std::string_view sync[] = {"fdatasync", "fsync", "msync", "sync", "sync_file_range", "syncfs"};

// Waiting for descriptors or time.
constexpr std::string_view wait[] = {"clock_nanosleep", "epoll_pwait", "epoll_pwait2", "epoll_wait", "nanosleep",
                                     "pause",           "poll",        "ppoll",        "pselect6",   "rt_sigsuspend",
                                     "rt_sigtimedwait", "select"};

// System V and POSIX inter-process communication, futexes.
constexpr std::string_view ipc[] = {"futex",   "futex_wait",      "futex_waitv",  "mq_getsetattr", "mq_notify",
                                    "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",     "msgctl",
                                    "msgget",  "msgrcv",          "msgsnd",       "pipe",          "pipe2",
                                    "semctl",  "semget",          "semop",        "semtimedop",    "shmat",
                                    "shmctl",  "shmdt",           "shmget"};

struct Group {
    std::string_view name;
    std::span<const std::string_view> members;
};
constexpr Group groups[] = {{"@file", file},       {"@io", io},           {"@ipc", ipc},   {"@memory", memory},
                            {"@network", network}, {"@process", process}, {"@sync", sync}, {"@wait", wait}};

} // namespace

std::span<const std::string_view> syscall_group(std::string_view name) {
    for (const Group &group : groups)
        if (group.name == name)
            return group.members;
    return {};
}

const std::vector<std::string> &syscall_groups() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (const Group &group : groups)
            all.emplace_back(group.name);
        return all;
    }();
    return names;
}

} // namespace incident::rules
