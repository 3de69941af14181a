// Finds the entry of systemd-coredump that belongs to a death, by the reasoning of core_link.h, without a journal.
#pragma once

#include "capture/core/core_link.h"

#include <optional>
#include <span>

namespace incident::capture {

// One entry for the pid and boot that are asked for, with its fields as the journal has them.
struct CoreEntry {
    std::string cursor;
    int signal = 0;                          // COREDUMP_SIGNAL, 0: absent or not a number
    std::optional<std::uint32_t> uid;        // COREDUMP_UID
    std::string exe, auxv;                   // COREDUMP_EXE, COREDUMP_PROC_AUXV
    WallTime death;                          // COREDUMP_TIMESTAMP: whole seconds; 0: absent
    WallTime written;                        // when journald received it
    std::string file;                        // COREDUMP_FILENAME
    bool truncated = false;                  // COREDUMP_TRUNCATED=1
    bool embedded = false;                   // has COREDUMP=, the core itself
    std::optional<std::uint32_t> writer_uid; // _UID, _EXE: added by journald, not by the writer
    std::string writer_exe;
};

struct CoreMatch {
    Join join = Join::None;
    std::string reason;
    const CoreEntry *entry = nullptr; // of Exact and Window
};

CoreMatch match_core(const DeathIdentity &death, std::span<const CoreEntry> entries);

// Whether an equal auxiliary vector proves the same execve().  It does not if the stack was not placed at random, or if
// that is not known.
bool auxv_identifies(std::string_view auxv);

} // namespace incident::capture
