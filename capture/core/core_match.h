// Finds the entry of systemd-coredump that belongs to a death, by the reasoning of core_link.h, without a journal.
#pragma once

#include "capture/core/core_link.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace incident::capture {

// One entry for the pid and boot that are asked for, with its fields as the journal has them.
struct CoreEntry {
    std::string cursor;
    int signal = 0;                   // COREDUMP_SIGNAL, 0: absent or not a number
    std::optional<std::uint32_t> uid; // COREDUMP_UID
    std::string exe, auxv;            // COREDUMP_EXE, COREDUMP_PROC_AUXV
    WallTime death;                   // COREDUMP_TIMESTAMP: whole seconds; 0: absent
    WallTime written;                 // when journald received it
    MonotonicTime written_at;         // the same in that boot; 0: unknown
    std::string file;                 // COREDUMP_FILENAME
    bool truncated = false;           // COREDUMP_TRUNCATED=1
    bool embedded = false;            // has COREDUMP=, the core itself
    // What journald itself says of who sent it; nobody can send a field whose name begins with '_'.
    std::optional<std::uint32_t> writer_uid; // _UID, by SCM_CREDENTIALS: always there
    std::string writer_exe, writer_unit;     // _EXE, _SYSTEMD_UNIT; "" if the sender had ended before journald looked
    std::string transport;                   // _TRANSPORT
};

// More is not read of a field: anybody can send fields of many MiB.  No path is longer (PATH_MAX).
inline constexpr std::size_t core_field_max = 4096;

// Reads the fields of an entry that `field` gives by their names ("" if the entry has none); the cursor and the time
// come from the journal itself.
CoreEntry core_entry_of(const std::function<std::string(const char *name)> &field);

// How entries of systemd-coredump look on this machine.
struct CoreHandler {
    std::optional<std::uint32_t> uid; // of the user systemd-coredump, who writes those of the system's own users
    std::string exe;                  // the program in kernel.core_pattern; "" none
    bool in_unit = false;             // systemd runs this machine: its processes are in units
};

struct CoreMatch {
    Join join = Join::None;
    std::string reason;
    std::string rejected;             // of None: why the nearest entry is not of this death; "" there is none
    const CoreEntry *entry = nullptr; // of Exact and Window
};

CoreMatch match_core(const DeathIdentity &death, std::span<const CoreEntry> entries, const CoreHandler &handler = {});

// Whether systemd-coredump wrote the entry, whosever death it is about.
bool written_by_handler(const CoreEntry &entry, const CoreHandler &handler);

// Whether the entry was written before the death, so that it is of an earlier process of that number.
bool is_older(const CoreEntry &entry, const DeathIdentity &death);

// Whether an equal auxiliary vector proves the same execve().  It does not if the stack was not placed at random, or if
// that is not known.
bool auxv_identifies(std::string_view auxv);

} // namespace incident::capture
