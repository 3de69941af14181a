// Collects the state of ZFS for an incident of a pool: its transaction groups, the kstats, the tunables, and the
// threads that are blocked in ZFS.
#pragma once

#include "capture/collect/collect.h"
#include "capture/os/zfs_kstat.h"

namespace incident::capture {

struct ZfsLimits {
    std::chrono::milliseconds deadline{1000}; // for everything together; a stall lasts seconds
    std::uint64_t file_cap = 1u << 20;
    std::uint32_t pools = 64;
    std::uint32_t threads = 65536; // how many are checked
    std::uint32_t blocked = 512;   // how many are kept, with their stacks
};

// Files: host/zfs.POOL/{txgs,state,dmu_tx_assign,iostats,multihost} of each pool,
// host/zfs/{arcstats,…}, host/zfs/parameters ("name=value" of all of the module's), and
// host/zfs/blocked: JSON lines {pid,tid,comm,stack[]} of the threads that are in state D
// with a function of zfs or spl on their kernel stack.  Nothing read here waits for the
// pool: these files are made from counters in memory.  Other characters than [A-Za-z0-9._-]
// of a pool's name become '_'.
void collect_zfs(const OsRoots &os, const ZfsLimits &limits, Collected &into);

struct ZfsBlocked {
    std::uint32_t pid = 0, tid = 0;
    std::string comm; // hostile
    std::vector<std::string> stack;
};

// What was collected, parsed.
struct ZfsState {
    std::map<std::string, std::vector<TxgRow>> txgs; // by pool, as named in the bundle
    std::map<std::string, std::string> pool_states;  // "ONLINE", "SUSPENDED", …
    std::map<std::string, std::string> parameters;
    std::vector<ZfsBlocked> blocked;
};
ZfsState zfs_state(const Collected &collected);

// The name of a pool as bundle paths have it.
std::string zfs_pool_label(std::string_view pool);

} // namespace incident::capture
