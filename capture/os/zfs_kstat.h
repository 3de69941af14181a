// Parses what OpenZFS says in /proc/spl/kstat/zfs.  It does no I/O.
#pragma once

#include "capture/os/instant.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace incident::capture {

// One transaction group: a line of POOL/txgs (module/zfs/spa_stats.c,
// spa_txg_history_show).  birth_ns is a RawTime (gethrtime(), include/os/linux/spl/sys/time.h).  A span is 0 until its
// phase is over.
struct TxgRow {
    std::uint64_t txg = 0;
    std::uint64_t birth_ns = 0;
    char state = '?';                               // O(pen) Q(uiesced) W(aits for sync) S(yncing) C(ommitted)
    std::uint64_t dirty = 0, read = 0, written = 0; // bytes; known when it is committed
    std::uint64_t reads = 0, writes = 0;            // operations; known when it is committed
    std::uint64_t open_ns = 0, quiesce_ns = 0, wait_ns = 0, sync_ns = 0;

    // In module/zfs/txg.c spa_sync() begins just after the wait ends, and returns just before
    // the group is committed.
    bool syncing() const { return state == 'S'; }
    bool committed() const { return state == 'C'; }
    RawTime sync_start() const { return {birth_ns + open_ns + quiesce_ns + wait_ns}; }
};

// Oldest first, as in the file.  The names in the header find the columns, and a line that does not fit is left out.
// Empty if there is no header.  (With zfs_txg_history = 0 the file has only a header.)
std::vector<TxgRow> parse_txgs(std::string_view text);

// The functions of /proc/PID/stack, innermost first: "spa_sync+0x565/0xf90 [zfs]".
std::vector<std::string> parse_kernel_stack(std::string_view text);
// Whether a frame is in a function of the zfs or spl module.
bool in_zfs(const std::vector<std::string> &frames);

} // namespace incident::capture
