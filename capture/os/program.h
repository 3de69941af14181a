// Identifies what a process executes.  execve(2) leaves its pid and its start as they are, and gives it another
// program, perhaps that of another user (set-user-ID).
#pragma once

#include "bpf/event.h"
#include "capture/os/proc_stat.h"

#include <compare>
#include <cstdint>

namespace incident::capture {

// Where the kernel has put the program's code and stack.  It chooses both anew for each program, and only
// prctl(PR_SET_MM) changes them afterwards.
struct Program {
    std::uint64_t start_code = 0, start_stack = 0;

    auto operator<=>(const Program &) const = default;
    bool known() const { return start_stack != 0; }
    // A program that is not known may be any.
    bool may_be(const Program &other) const { return !known() || !other.known() || *this == other; }
};

// Which of the programs that a process executes one after the other is meant.
struct ProgramRef {
    Program program;   // not known: the one that is found
    bool last = false; // no other can follow: the process dies, or is in exit_group(2)
};

inline Program program_of(const bpf::event_header &header) {
    return {header.start_code, header.start_stack};
}

// Not known: the memory of the process is gone, or procfs does not show its addresses to this one.
inline Program program_of(const ProcStat &stat) {
    const bool hidden = stat.start_code == 1 && stat.start_stack == 0; // fs/proc/array.c
    if (stat.memory == 0 || hidden)
        return {};
    // A program that is still being loaded has no stack of its own yet (fs/binfmt_elf.c).  It is none that has run.
    return {stat.start_code, stat.start_stack ? stat.start_stack : 1};
}

} // namespace incident::capture
