// Names and argument shapes of syscalls, errnos and signals.  The tables are made
// at build time from the kernel's and libc's own headers (capture/tables/), none typed in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incident::capture {

// "openat"; "syscall_999" where the table has none.
std::string syscall_name(int nr, bool compat);
// Every name of both tables, sorted, each once.
const std::vector<std::string> &syscall_names();
// "ENOENT"; "errno 4095" where there is none; restarts: "ERESTARTSYS" etc. (512..516)
std::string errno_name(int error);
// "SIGSEGV", "SIGRTMIN+3"
std::string signal_name(int number);
// "SEGV_MAPERR", "SI_USER", …; "code 77" where unknown
std::string signal_code_name(int number, int code);

// Arguments as strace would print them where they are numbers, flags or descriptors:
// {"AT_FDCWD", "\"/etc/passwd\"", "O_RDONLY|O_CLOEXEC"}.  Pointers in hex.
// path: of the call, where one was recorded.
struct DecodedCall {
    std::string name;
    std::vector<std::string> args;
    int fd = -1; // the descriptor the call works on, where it has one
    bool returns_fd = false;
    bool returns_pointer = false;
};
DecodedCall decode_syscall(int nr, bool compat, const std::uint64_t args[6], const std::string *path);

// For the recorder: which argument of call nr is a path worth keeping: index + 1, or 0.
// all: every call that takes a path; else only open, openat, openat2, creat, execve(at) and their like.
std::uint8_t path_argument(int nr, bool compat, bool all);
// For the recorder: how many of the six registers hold arguments of call nr; of one that is not known all.
unsigned argument_registers(int nr, bool compat);
// Whether every result of call nr that is no error is a new descriptor (fcntl's is not).
bool returns_descriptor(int nr, bool compat);
// Whether nr changes the address space: brk, mmap, munmap, mremap.
bool is_memory_call(int nr, bool compat);
// Whether nr opens a file by path: open, openat, openat2, creat (kind "open" in the timeline).
bool is_open_call(int nr, bool compat);
// Signal number by name ("SIGSEGV", "SEGV") or 0.
int signal_number(std::string_view name);

} // namespace incident::capture
