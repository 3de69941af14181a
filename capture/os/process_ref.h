// Identifies a process by pid and start time, because the pid alone may belong to another process when it is used (as
// systemd's PidRef).
#pragma once

#include "bpf/event.h"
#include "capture/os/instant.h"
#include "capture/os/proc_stat.h"

#include <compare>
#include <cstdint>

namespace incident::capture {

struct ProcessRef {
    std::uint32_t pid = 0; // of its thread group (tgid), in the host's pid namespace; 0: nobody
    BootTime start;        // task->start_boottime of its first thread; 0: not known

    auto operator<=>(const ProcessRef &) const = default;
    // Whether a process whose start was read in /proc is this one.  /proc shows the start only in clock ticks.
    bool is(const ProcStat &stat) const { return pid == stat.pid && start_ticks_of(start) == stat.start_ticks; }
    // Whether both are the same process, if one of the two starts was read in /proc.
    bool same_to_a_tick(const ProcessRef &other) const {
        return pid == other.pid && start_ticks_of(start) == start_ticks_of(other.start);
    }
};

inline ProcessRef process_of(const bpf::event_header &header) {
    return {header.tgid, {header.process_start_boot_ns}};
}
inline ProcessRef process_of(const bpf::thread_slot &thread) {
    return {thread.tgid, {thread.process_start_boot_ns}};
}
inline ProcessRef process_of(const bpf::process_entry &entry) {
    return {entry.tgid, {entry.start_boot_ns}};
}

} // namespace incident::capture
