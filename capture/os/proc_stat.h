// Reads /proc/PID/stat, and converts the kernel's start times to those in it.
#pragma once

#include "capture/os/instant.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace incident::capture {

struct ProcStat {
    std::uint32_t pid = 0, ppid = 0;
    std::string comm; // hostile
    char state = '?';
    std::uint64_t threads = 0;
    std::uint64_t start_ticks = 0;                 // field 22
    std::uint64_t memory = 0;                      // bytes of address space, field 23; 0: it has none any more
    std::uint64_t start_code = 0, start_stack = 0; // fields 26 and 28
};

// comm may hold blanks, newlines and parentheses, so it ends at the last ')'.
std::optional<ProcStat> parse_proc_stat(std::string_view text);

// Converts task->start_boottime (process_start_boot_ns in event.h) to the clock ticks of field 22, rounded down as the
// kernel does (nsec_to_clock_t).
std::uint64_t start_ticks_of(BootTime start);

} // namespace incident::capture
