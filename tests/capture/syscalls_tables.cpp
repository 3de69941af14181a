// The generated tables against what this compiler knows by other ways.
#include "capture/decode/syscalls.h"

#include <gtest/gtest.h>

#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace incident::capture {
namespace {

TEST(SyscallsTables, NumbersAreThoseOfTheHeaders) {
    EXPECT_EQ(syscall_name(SYS_read, false), "read");
    EXPECT_EQ(syscall_name(SYS_openat2, false), "openat2");
    EXPECT_EQ(syscall_name(SYS_futex_waitv, false), "futex_waitv");
    EXPECT_EQ(syscall_name(1, true), "exit"); // asm/unistd_32.h
    EXPECT_EQ(syscall_name(1, false), "write");
    EXPECT_EQ(syscall_name(-1, false), "syscall_-1");
    EXPECT_EQ(syscall_name(100000, true), "syscall_100000");
}

TEST(SyscallsTables, ErrnoNamesAreLibcs) {
    for (int error = 1; error < 134; ++error) {
        const char *const name = strerrorname_np(error);
        if (name) {
            EXPECT_EQ(errno_name(error), name);
        }
    }
    EXPECT_EQ(errno_name(EAGAIN), "EAGAIN"); // not EWOULDBLOCK
    EXPECT_EQ(errno_name(512), "ERESTARTSYS");
    EXPECT_EQ(errno_name(513), "ERESTARTNOINTR");
    EXPECT_EQ(errno_name(514), "ERESTARTNOHAND");
    EXPECT_EQ(errno_name(516), "ERESTART_RESTARTBLOCK");
    EXPECT_EQ(errno_name(4095), "errno 4095");
    EXPECT_EQ(errno_name(0), "errno 0");
    EXPECT_EQ(errno_name(-1), "errno -1");
}

TEST(SyscallsTables, SignalNamesAreLibcs) {
    for (int number = 1; number < 32; ++number)
        EXPECT_EQ(signal_name(number), number == SIGIO ? "SIGIO" : std::string("SIG") + sigabbrev_np(number));
    EXPECT_EQ(signal_name(SIGRTMIN), "SIGRTMIN");
    EXPECT_EQ(signal_name(SIGRTMIN + 3), "SIGRTMIN+3");
    EXPECT_EQ(signal_name(32), "SIG32"); // glibc's own
    EXPECT_EQ(signal_name(0), "SIG0");
    EXPECT_EQ(signal_name(-3), "SIG-3");
}

TEST(SyscallsTables, SignalNumbersByName) {
    EXPECT_EQ(signal_number("SIGSEGV"), SIGSEGV);
    EXPECT_EQ(signal_number("SEGV"), SIGSEGV);
    EXPECT_EQ(signal_number("SIGPOLL"), SIGPOLL);
    EXPECT_EQ(signal_number("SIGIOT"), SIGIOT);
    EXPECT_EQ(signal_number("SIGRTMIN"), SIGRTMIN);
    EXPECT_EQ(signal_number("SIGRTMIN+3"), SIGRTMIN + 3);
    EXPECT_EQ(signal_number("RTMAX-1"), SIGRTMAX - 1);
    for (const char *wrong : {"", "SIG", "SIGFOO", "sigsegv", "SIGRTMIN+", "SIGRTMIN-1", "SIGRTMIN+99", "SIGRTMIN+3x",
                              "SIGRTMIN+-3", "RTMAX+1", "11"})
        EXPECT_EQ(signal_number(wrong), 0) << wrong;
    for (int number = 1; number <= 31; ++number)
        EXPECT_EQ(signal_number(signal_name(number)), number);
}

TEST(SyscallsTables, CodesByTheirSignal) {
    EXPECT_EQ(signal_code_name(SIGSEGV, SEGV_MAPERR), "SEGV_MAPERR");
    EXPECT_EQ(signal_code_name(SIGBUS, BUS_ADRERR), "BUS_ADRERR");
    EXPECT_EQ(signal_code_name(SIGFPE, FPE_INTDIV), "FPE_INTDIV");
    EXPECT_EQ(signal_code_name(SIGILL, ILL_ILLOPN), "ILL_ILLOPN");
    EXPECT_EQ(signal_code_name(SIGCHLD, CLD_DUMPED), "CLD_DUMPED");
    EXPECT_EQ(signal_code_name(SIGSYS, 1), "SYS_SECCOMP");
    EXPECT_EQ(signal_code_name(SIGSEGV, SI_USER), "SI_USER");
    EXPECT_EQ(signal_code_name(SIGABRT, SI_TKILL), "SI_TKILL");
    EXPECT_EQ(signal_code_name(SIGSEGV, SI_KERNEL), "SI_KERNEL");
    EXPECT_EQ(signal_code_name(SIGTERM, 1), "code 1");
    EXPECT_EQ(signal_code_name(SIGSEGV, 77), "code 77");
}

TEST(SyscallsTables, PathArguments) {
    EXPECT_EQ(path_argument(SYS_openat, false, false), 2);
    EXPECT_EQ(path_argument(SYS_open, false, false), 1);
    EXPECT_EQ(path_argument(SYS_openat2, false, false), 2);
    EXPECT_EQ(path_argument(SYS_creat, false, false), 1);
    EXPECT_EQ(path_argument(SYS_execve, false, false), 1);
    EXPECT_EQ(path_argument(SYS_execveat, false, false), 2);
    EXPECT_EQ(path_argument(SYS_stat, false, false), 0);
    EXPECT_EQ(path_argument(SYS_stat, false, true), 1);
    EXPECT_EQ(path_argument(SYS_newfstatat, false, true), 2);
    EXPECT_EQ(path_argument(SYS_renameat2, false, true), 2);
    EXPECT_EQ(path_argument(SYS_mount, false, true), 2); // where, not what
    EXPECT_EQ(path_argument(SYS_read, false, true), 0);
    EXPECT_EQ(path_argument(5, true, false), 1); // open of the 32-bit table
    EXPECT_EQ(path_argument(-5, false, true), 0);
    EXPECT_EQ(path_argument(5000, false, true), 0);
}

// Each call that takes a path to a file: nothing forgotten when the headers change.
TEST(SyscallsTables, CallsWithPathsAreManyAndTheirArgumentIsAPointer) {
    int count = 0;
    for (int nr = 0; nr < 500; ++nr)
        if (const int index = path_argument(nr, false, true)) {
            ++count;
            std::uint64_t args[6] = {};
            const std::string path = "/p";
            const DecodedCall call = decode_syscall(nr, false, args, &path);
            EXPECT_EQ(call.args.at(index - 1), "\"/p\"") << call.name;
        }
    EXPECT_GE(count, 65);
}

TEST(SyscallsTables, MemoryAndOpenCalls) {
    for (const long nr : {SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap})
        EXPECT_TRUE(is_memory_call(static_cast<int>(nr), false));
    EXPECT_FALSE(is_memory_call(SYS_mprotect, false));
    EXPECT_TRUE(is_memory_call(192, true)); // mmap2
    for (const long nr : {SYS_open, SYS_openat, SYS_openat2, SYS_creat})
        EXPECT_TRUE(is_open_call(static_cast<int>(nr), false));
    EXPECT_FALSE(is_open_call(SYS_execve, false));
}

} // namespace
} // namespace incident::capture
