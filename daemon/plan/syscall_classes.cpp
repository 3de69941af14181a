#include "daemon/plan/syscall_classes.h"

#include "capture/decode/syscalls.h"

#include <set>
#include <string>

namespace incident::daemon {

namespace {

unsigned memory_call(const std::string &name) {
    if (name == "brk")
        return bpf::MEMORY_BRK;
    if (name == "mmap" || name == "mmap2")
        return bpf::MEMORY_MMAP;
    if (name == "munmap")
        return bpf::MEMORY_MUNMAP;
    if (name == "mremap")
        return bpf::MEMORY_MREMAP;
    return 0;
}

// Waiting for something to do, as a server or a timer does when all is well.
bool waits_for_work(const std::string &name) {
    static const std::set<std::string, std::less<>> names = {"poll",
                                                             "ppoll",
                                                             "ppoll_time64",
                                                             "select",
                                                             "_newselect",
                                                             "pselect6",
                                                             "pselect6_time64",
                                                             "epoll_wait",
                                                             "epoll_pwait",
                                                             "epoll_pwait2",
                                                             "futex",
                                                             "futex_wait",
                                                             "futex_waitv",
                                                             "futex_time64",
                                                             "nanosleep",
                                                             "clock_nanosleep",
                                                             "clock_nanosleep_time64",
                                                             "pause",
                                                             "rt_sigsuspend",
                                                             "sigsuspend",
                                                             "rt_sigtimedwait",
                                                             "rt_sigtimedwait_time64",
                                                             "wait4",
                                                             "waitpid",
                                                             "waitid",
                                                             "accept",
                                                             "accept4",
                                                             "io_getevents",
                                                             "io_pgetevents",
                                                             "io_uring_enter",
                                                             "msgrcv",
                                                             "semtimedop",
                                                             "semop",
                                                             "mq_timedreceive",
                                                             "mq_timedreceive_time64",
                                                             "restart_syscall"};
    return names.contains(name);
}

unsigned address_call(const std::string &name) {
    if (name == "connect" || name == "bind")
        return bpf::ADDRESS_GIVEN;
    if (name == "sendto")
        return bpf::ADDRESS_TO;
    if (name == "accept" || name == "accept4")
        return bpf::ADDRESS_ACCEPTED;
    if (name == "recvfrom")
        return bpf::ADDRESS_FROM;
    if (name == "sendmsg")
        return bpf::ADDRESS_SENT;
    if (name == "recvmsg")
        return bpf::ADDRESS_RECEIVED;
    if (name == "epoll_ctl")
        return bpf::EVENTS_GIVEN;
    if (name == "epoll_wait" || name == "epoll_pwait" || name == "epoll_pwait2")
        return bpf::EVENTS_TAKEN;
    return 0;
}

struct PayloadCall {
    unsigned call = 0; // bpf::payload_call; 0: none
    bool receives = false;
};

PayloadCall payload_call(const std::string &name) {
    if (name == "write" || name == "sendto")
        return {bpf::PAYLOAD_BUFFER, false};
    if (name == "read" || name == "recvfrom")
        return {bpf::PAYLOAD_BUFFER, true};
    if (name == "writev")
        return {bpf::PAYLOAD_VECTOR, false};
    if (name == "readv")
        return {bpf::PAYLOAD_VECTOR, true};
    if (name == "sendmsg")
        return {bpf::PAYLOAD_MESSAGE, false};
    if (name == "recvmsg")
        return {bpf::PAYLOAD_MESSAGE, true};
    return {};
}

__u32 class_of(int nr, bool compat, bool all_paths) {
    // The i386 calls that pass a structure of arguments (old mmap, 90) have no sizes in registers.
    if (compat && nr == 90)
        return 1u << CLASS_ARGUMENTS_SHIFT;
    unsigned result = 0;
    const std::string name = capture::syscall_name(nr, compat);
    if (const unsigned path = capture::path_argument(nr, compat, all_paths)) {
        result |= path << CLASS_PATH_SHIFT;
        if (name == "open")
            result |= 2u << CLASS_FLAGS_SHIFT;
        else if (name == "openat")
            result |= 3u << CLASS_FLAGS_SHIFT;
        else if (name == "openat2")
            result |= CLASS_OPEN_HOW;
    } else if (capture::is_memory_call(nr, compat)) {
        result |= memory_call(name) << CLASS_MEMORY_SHIFT;
    }
    result |= address_call(name) << CLASS_ADDRESS_SHIFT;
    const PayloadCall payload = payload_call(name);
    result |= payload.call << CLASS_PAYLOAD_SHIFT | (payload.receives ? CLASS_RECEIVES : 0);
    if (capture::returns_descriptor(nr, compat))
        result |= CLASS_NEW_FD;
    if (waits_for_work(name))
        result |= CLASS_IDLE;
    static const std::set<std::string_view> forks = {"fork", "vfork", "clone", "clone3"};
    if (forks.contains(name))
        result |= CLASS_FORK;
    if (name == "execve" || name == "execveat")
        result |= CLASS_EXEC;
    if (name == "rt_sigreturn" || name == "sigreturn")
        result |= CLASS_SIGRETURN;
    result |= capture::argument_registers(nr, compat) << CLASS_ARGUMENTS_SHIFT;
    return result;
}

} // namespace

bool is_idle_call(int nr, bool compat) {
    return waits_for_work(capture::syscall_name(nr, compat));
}

void fill_syscall_classes(__u32 (&classes)[2][SYSCALL_CLASSES], bool all_paths) {
    for (int compat = 0; compat < 2; ++compat)
        for (int nr = 0; nr < SYSCALL_CLASSES; ++nr)
            classes[compat][nr] = class_of(nr, compat != 0, all_paths);
}

} // namespace incident::daemon
