// /proc/PID/stat, and the one conversion between the kernel's start times and it.
#pragma once

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
    std::uint64_t start_ticks = 0; // field 22
};

// comm may hold blanks, newlines and parentheses: it ends at the last ')'.
std::optional<ProcStat> parse_proc_stat(std::string_view text);

// task->start_boottime (ns, event.h's process_start_boot_ns) in the clock ticks of
// field 22, rounded as the kernel does (nsec_to_clock_t: division, no rounding up).
std::uint64_t start_ticks_of(std::uint64_t start_boot_ns);

} // namespace incident::capture
