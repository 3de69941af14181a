// Arguments in the form strace gives them (which knows more: what pointers point to).
#include "capture/decode/syscalls.h"

#include <gtest/gtest.h>

#include <asm/prctl.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace incident::capture {
namespace {

using Registers = std::initializer_list<std::uint64_t>;

std::string shown(long nr, Registers registers, const char *path = nullptr, bool compat = false) {
    std::uint64_t args[6] = {};
    std::copy(registers.begin(), registers.end(), args);
    const std::string text = path ? path : "";
    const DecodedCall call = decode_syscall(static_cast<int>(nr), compat, args, path ? &text : nullptr);
    std::string out = call.name + "(";
    for (std::size_t i = 0; i < call.args.size(); ++i)
        out += (i ? ", " : "") + call.args[i];
    return out + ")";
}

constexpr std::uint64_t at_fdcwd = static_cast<std::uint32_t>(AT_FDCWD);

TEST(SyscallsDecode, ANumberOfTheX32AbiIsNotTakenForAnother) {
    constexpr int x32 = 0x40000000; // __X32_SYSCALL_BIT
    EXPECT_EQ(syscall_name(x32 | 1, false), "x32:write");
    EXPECT_EQ(syscall_name(x32 | 520, false), "x32:syscall_520") << "a table of its own begins at 512";
    const std::uint64_t args[6] = {1, 0x1000, 5};
    EXPECT_EQ(decode_syscall(x32 | 1, false, args, nullptr).name, "x32:write");
    EXPECT_EQ(syscall_name(x32 | 1, true), "syscall_1073741825") << "of i386 there are none";
}

TEST(SyscallsDecode, OpenTakesAModeOnlyWhereItMayMakeAFile) {
    EXPECT_EQ(shown(SYS_openat, {at_fdcwd, 0x7f00, O_RDONLY | O_CLOEXEC, 0777}, "/etc/passwd"),
              "openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY|O_CLOEXEC)");
    EXPECT_EQ(shown(SYS_openat, {5, 0x7f00, O_WRONLY | O_CREAT | O_TRUNC, 0644}, "log"),
              "openat(5, \"log\", O_WRONLY|O_CREAT|O_TRUNC, 0644)");
    EXPECT_EQ(shown(SYS_open, {0x7f00, O_RDWR | O_APPEND, 0}), "open(0x7f00, O_RDWR|O_APPEND)");
    EXPECT_EQ(shown(SYS_open, {0x7f00, O_RDWR | O_TMPFILE, 0600}, "/tmp"), "open(\"/tmp\", O_RDWR|O_TMPFILE, 0600)");
    EXPECT_EQ(shown(SYS_creat, {0x7f00, 0}, "x"), "creat(\"x\", 000)");
}

TEST(SyscallsDecode, FlagsThatContainOthersAreNamedOnce) {
    EXPECT_EQ(shown(SYS_open, {0, O_RDONLY | O_SYNC}), "open(NULL, O_RDONLY|O_SYNC)");
    EXPECT_EQ(shown(SYS_open, {0, O_RDONLY | O_DSYNC}), "open(NULL, O_RDONLY|O_DSYNC)");
    EXPECT_EQ(shown(SYS_open, {0, O_RDONLY | 0x40000000}), "open(NULL, O_RDONLY|0x40000000)");
}

TEST(SyscallsDecode, PathsAreQuotedAsStraceDoes) {
    EXPECT_EQ(shown(SYS_unlink, {1}, "a\nb\t\"c\"\\"), "unlink(\"a\\nb\\t\\\"c\\\"\\\\\")");
    EXPECT_EQ(shown(SYS_unlink, {1}, "\x1b[31m"), "unlink(\"\\33[31m\")");
    EXPECT_EQ(shown(SYS_unlink, {1},
                    "\x1b"
                    "7"),
              "unlink(\"\\0337\")"); // else it would read as \337
    EXPECT_EQ(shown(SYS_unlink, {1}, "\xff\xc3\xa9"), "unlink(\"\\377é\")");
    EXPECT_EQ(shown(SYS_unlink, {1},
                    "\xc2\x9b"
                    "31m"),
              "unlink(\"\\302\\23331m\")"); // C1: CSI in one byte
    EXPECT_EQ(shown(SYS_unlink, {1},
                    "a\xe2\x80\xae"
                    "b"),
              "unlink(\"a\\342\\200\\256b\")"); // right-to-left override
}

TEST(SyscallsDecode, Memory) {
    EXPECT_EQ(shown(SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~0ull, 0}),
              "mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0x0)");
    EXPECT_EQ(shown(SYS_mmap, {0x10000, 8192, PROT_NONE, MAP_SHARED | MAP_FIXED, 3, 0x1000}),
              "mmap(0x10000, 8192, PROT_NONE, MAP_SHARED|MAP_FIXED, 3, 0x1000)");
    EXPECT_EQ(shown(SYS_mprotect, {0x7f0000, 4096, PROT_READ | PROT_EXEC}),
              "mprotect(0x7f0000, 4096, PROT_READ|PROT_EXEC)");
    EXPECT_EQ(shown(SYS_madvise, {0x7f0000, 4096, MADV_DONTNEED}), "madvise(0x7f0000, 4096, MADV_DONTNEED)");
    EXPECT_EQ(shown(SYS_brk, {0}), "brk(NULL)");
    EXPECT_EQ(shown(SYS_mremap, {0x1000, 1, 2, MREMAP_MAYMOVE, 0x55}), "mremap(0x1000, 1, 2, MREMAP_MAYMOVE)");
    EXPECT_EQ(shown(SYS_mremap, {0x1000, 1, 2, MREMAP_MAYMOVE | MREMAP_FIXED, 0x55}),
              "mremap(0x1000, 1, 2, MREMAP_MAYMOVE|MREMAP_FIXED, 0x55)");
}

TEST(SyscallsDecode, IntegersHaveTheirDeclaredSign) {
    EXPECT_EQ(shown(SYS_read, {3, 0x7f00, 512}), "read(3, 0x7f00, 512)");
    EXPECT_EQ(shown(SYS_close, {0xffffffff}), "close(-1)");
    EXPECT_EQ(shown(SYS_poll, {0x7f00, 1, 0xffffffff}), "poll(0x7f00, 1, -1)");
    EXPECT_EQ(shown(SYS_poll, {0x7f00, 1, 0xabcd00000005}), "poll(0x7f00, 1, 5)"); // an int: upper half is noise
    EXPECT_EQ(shown(SYS_lseek, {3, static_cast<std::uint64_t>(-10), SEEK_CUR}), "lseek(3, -10, SEEK_CUR)");
    EXPECT_EQ(shown(SYS_wait4, {0xffffffff, 0, WNOHANG | __WALL, 0}), "wait4(-1, NULL, WNOHANG|__WALL, NULL)");
    EXPECT_EQ(shown(SYS_chown, {0, 0xffffffff, 0}, "f"), "chown(\"f\", -1, 0)");
    EXPECT_EQ(shown(SYS_pread64, {3, 0x10, 20, 1ull << 40}), "pread64(3, 0x10, 20, 1099511627776)");
}

TEST(SyscallsDecode, Signals) {
    EXPECT_EQ(shown(SYS_kill, {1234, SIGTERM}), "kill(1234, SIGTERM)");
    EXPECT_EQ(shown(SYS_kill, {0xffffffff, 0}), "kill(-1, 0)");
    EXPECT_EQ(shown(SYS_tgkill, {5, 6, 37}), "tgkill(5, 6, SIGRTMIN+3)");
    EXPECT_EQ(shown(SYS_rt_sigaction, {SIGCHLD, 0x1, 0, 8}), "rt_sigaction(SIGCHLD, 0x1, NULL, 8)");
    EXPECT_EQ(shown(SYS_rt_sigprocmask, {SIG_BLOCK, 0, 0, 8}), "rt_sigprocmask(SIG_BLOCK, NULL, NULL, 8)");
}

TEST(SyscallsDecode, FutexTakesWhatItsOperationLooksAt) {
    EXPECT_EQ(shown(SYS_futex, {0x10, FUTEX_WAIT_PRIVATE, 2, 0, 9, 9}), "futex(0x10, FUTEX_WAIT_PRIVATE, 2, NULL)");
    EXPECT_EQ(shown(SYS_futex, {0x10, FUTEX_WAKE_PRIVATE, 1, 9, 9, 9}), "futex(0x10, FUTEX_WAKE_PRIVATE, 1)");
    EXPECT_EQ(shown(SYS_futex, {0x10, FUTEX_WAIT_BITSET_PRIVATE | FUTEX_CLOCK_REALTIME, 0, 0x7f, 0, 0xffffffff}),
              "futex(0x10, FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME, 0, 0x7f, FUTEX_BITSET_MATCH_ANY)");
    EXPECT_EQ(shown(SYS_futex, {0x10, FUTEX_CMP_REQUEUE, 1, 2147483647, 0x20, 4}),
              "futex(0x10, FUTEX_CMP_REQUEUE, 1, 2147483647, 0x20, 4)");
    EXPECT_EQ(shown(SYS_futex, {0x10, FUTEX_REQUEUE, 1, 7, 0x20, 4}), "futex(0x10, FUTEX_REQUEUE, 1, 7, 0x20)");
}

TEST(SyscallsDecode, Clone) {
    EXPECT_EQ(shown(SYS_clone, {CLONE_CHILD_CLEARTID | CLONE_CHILD_SETTID | SIGCHLD, 0, 0, 0x77, 0}),
              "clone(CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, NULL, NULL, 0x77, NULL)");
    EXPECT_EQ(shown(SYS_clone, {SIGCHLD}), "clone(SIGCHLD, NULL, NULL, NULL, NULL)");
    EXPECT_EQ(shown(SYS_clone3, {0x7f00, 88}), "clone3(0x7f00, 88)");
    EXPECT_EQ(shown(SYS_unshare, {CLONE_NEWNS | CLONE_NEWNET}), "unshare(CLONE_NEWNS|CLONE_NEWNET)");
}

TEST(SyscallsDecode, Sockets) {
    EXPECT_EQ(shown(SYS_socket, {AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP}),
              "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, IPPROTO_TCP)");
    EXPECT_EQ(shown(SYS_socket, {AF_UNIX, SOCK_DGRAM, 0}), "socket(AF_UNIX, SOCK_DGRAM, 0)");
    EXPECT_EQ(shown(SYS_setsockopt, {3, SOL_SOCKET, SO_REUSEADDR, 0x7f, 4}),
              "setsockopt(3, SOL_SOCKET, SO_REUSEADDR, 0x7f, 4)");
    EXPECT_EQ(shown(SYS_setsockopt, {3, IPPROTO_TCP, TCP_NODELAY, 0x7f, 4}),
              "setsockopt(3, IPPROTO_TCP, TCP_NODELAY, 0x7f, 4)");
    EXPECT_EQ(shown(SYS_sendto, {3, 0x7f, 5, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0}),
              "sendto(3, 0x7f, 5, MSG_DONTWAIT|MSG_NOSIGNAL, NULL, 0)");
    EXPECT_EQ(shown(SYS_accept4, {3, 0, 0, SOCK_NONBLOCK | SOCK_CLOEXEC}),
              "accept4(3, NULL, NULL, SOCK_NONBLOCK|SOCK_CLOEXEC)");
    EXPECT_EQ(shown(SYS_shutdown, {3, SHUT_WR}), "shutdown(3, SHUT_WR)");
}

TEST(SyscallsDecode, FcntlAndIoctl) {
    EXPECT_EQ(shown(SYS_fcntl, {3, F_GETFL, 77}), "fcntl(3, F_GETFL)");
    EXPECT_EQ(shown(SYS_fcntl, {3, F_SETFD, FD_CLOEXEC}), "fcntl(3, F_SETFD, FD_CLOEXEC)");
    EXPECT_EQ(shown(SYS_fcntl, {3, F_SETFL, O_RDWR | O_NONBLOCK}), "fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK)");
    EXPECT_EQ(shown(SYS_fcntl, {3, F_DUPFD_CLOEXEC, 10}), "fcntl(3, F_DUPFD_CLOEXEC, 10)");
    EXPECT_EQ(shown(SYS_ioctl, {1, TCGETS, 0x7f}), "ioctl(1, TCGETS, 0x7f)");
    EXPECT_EQ(shown(SYS_ioctl, {1, FIONREAD, 0x7f}), "ioctl(1, FIONREAD, 0x7f)");
    EXPECT_EQ(shown(SYS_ioctl, {1, _IOWR('Z', 0x7b, int), 0}),
              "ioctl(1, _IOC(_IOC_READ|_IOC_WRITE, 0x5a, 0x7b, 0x4), 0x0)");
}

TEST(SyscallsDecode, Various) {
    EXPECT_EQ(shown(SYS_epoll_ctl, {4, EPOLL_CTL_ADD, 5, 0x7f}), "epoll_ctl(4, EPOLL_CTL_ADD, 5, 0x7f)");
    EXPECT_EQ(shown(SYS_getrandom, {0x7f, 16, GRND_NONBLOCK}), "getrandom(0x7f, 16, GRND_NONBLOCK)");
    EXPECT_EQ(shown(SYS_prlimit64, {0, RLIMIT_NOFILE, 0, 0x7f}), "prlimit64(0, RLIMIT_NOFILE, NULL, 0x7f)");
    EXPECT_EQ(shown(SYS_arch_prctl, {ARCH_SET_FS, 0x7f}), "arch_prctl(ARCH_SET_FS, 0x7f)");
    EXPECT_EQ(shown(SYS_access, {0, R_OK | W_OK}, "/x"), "access(\"/x\", W_OK|R_OK)");
    EXPECT_EQ(shown(SYS_access, {0, F_OK}, "/x"), "access(\"/x\", F_OK)");
    EXPECT_EQ(shown(SYS_newfstatat, {at_fdcwd, 0, 0x7f, AT_SYMLINK_NOFOLLOW}, "l"),
              "newfstatat(AT_FDCWD, \"l\", 0x7f, AT_SYMLINK_NOFOLLOW)");
    EXPECT_EQ(shown(SYS_statx, {at_fdcwd, 0, 0, STATX_SIZE, 0x7f}, "l"), "statx(AT_FDCWD, \"l\", 0, STATX_SIZE, 0x7f)");
    EXPECT_EQ(shown(SYS_mknod, {0, S_IFBLK | 0600, (8 << 8) | 1}, "d"),
              "mknod(\"d\", S_IFBLK|0600, makedev(0x8, 0x1))");
    EXPECT_EQ(shown(SYS_exit_group, {0}), "exit_group(0)");
    EXPECT_EQ(shown(SYS_getpid, {}), "getpid()");
    EXPECT_EQ(shown(SYS_clock_nanosleep, {CLOCK_REALTIME, 0, 0x1, 0}), "clock_nanosleep(CLOCK_REALTIME, 0, 0x1, NULL)");
}

TEST(SyscallsDecode, OfTwoPathsTheRecordedOneIsTheFirst) {
    EXPECT_EQ(shown(SYS_rename, {0x10, 0x20}, "a"), "rename(\"a\", 0x20)");
}

TEST(SyscallsDecode, CompatCallsUseTheirOwnTableAndRegisterPairs) {
    EXPECT_EQ(shown(5, {0x10, O_RDONLY}, "/x", true), "open(\"/x\", O_RDONLY)"); // __NR_open of unistd_32.h
    EXPECT_EQ(shown(180, {3, 0x10, 20, 1, 2}, nullptr, true), "pread64(3, 0x10, 20, 8589934593)");
    EXPECT_EQ(shown(192, {0, 4096, 1, 2, ~0ull, 5}, nullptr, true),
              "mmap2(NULL, 4096, PROT_READ, MAP_PRIVATE, -1, 0x5)");
}

TEST(SyscallsDecode, UnknownNumbersShowAllRegisters) {
    EXPECT_EQ(shown(999, {1, 2, 3, 4, 5, 0xff}), "syscall_999(0x1, 0x2, 0x3, 0x4, 0x5, 0xff)");
    EXPECT_EQ(shown(-1, {}), "syscall_-1(0x0, 0x0, 0x0, 0x0, 0x0, 0x0)");
}

TEST(SyscallsDecode, SaysWhichDescriptorAndWhatComesBack) {
    const auto decode = [](long nr, Registers registers) {
        std::uint64_t args[6] = {};
        std::copy(registers.begin(), registers.end(), args);
        return decode_syscall(static_cast<int>(nr), false, args, nullptr);
    };
    EXPECT_EQ(decode(SYS_read, {7}).fd, 7);
    EXPECT_EQ(decode(SYS_openat, {7}).fd, -1); // a directory to start from, not what it works on
    EXPECT_TRUE(decode(SYS_openat, {7}).returns_fd);
    EXPECT_TRUE(decode(SYS_mmap, {}).returns_pointer);
    EXPECT_TRUE(decode(SYS_fcntl, {3, F_DUPFD}).returns_fd);
    EXPECT_FALSE(decode(SYS_fcntl, {3, F_GETFL}).returns_fd);
}

// No number, no argument may read outside anything.
TEST(SyscallsDecode, EveryNumberWithEveryPatternHasText) {
    for (const bool compat : {false, true})
        for (int nr = -2; nr < 1100; ++nr)
            for (const std::uint64_t pattern : {0ull, ~0ull, 0x8000000000000000ull, 0x5555555555555555ull}) {
                const std::uint64_t args[6] = {pattern, pattern, pattern, pattern, pattern, pattern};
                const DecodedCall call = decode_syscall(nr, compat, args, nullptr);
                ASSERT_FALSE(call.name.empty());
                ASSERT_LE(call.args.size(), 6u);
                for (const std::string &arg : call.args)
                    ASSERT_FALSE(arg.empty()) << call.name;
            }
}

} // namespace
} // namespace incident::capture
