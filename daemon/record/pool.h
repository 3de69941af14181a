// Who gives back segments of the pool of calls (bpf/segments.bpf.h) when it is nearly used up and others want some.
#pragma once

#include "capture/os/process_ref.h"

#include <cstdint>
#include <map>
#include <vector>

namespace incident::daemon {

// A thread with segments.
struct SegmentHolder {
    std::uint32_t slot = 0;
    std::uint32_t user = 0; // index of her share
    capture::ProcessRef process;
    bool refused = false; // it has written over calls of its own, for it got no further segment
    std::uint32_t segments = 0;
    // When the last call of each began (monotonic), oldest first: of all its segments but the newest, which it keeps.
    std::vector<std::uint64_t> until_ns;
};

// A fair part of the pool is the same for each user, within a user for each of her processes, and within a process for
// each of its threads, of those who have more than OWN_SEGMENTS or want them.

// Whether a thread was refused more that has less than its part.  It needs no until_ns.
bool anybody_in_need(const std::vector<SegmentHolder> &holders, std::uint32_t pool);

struct PoolPlan {
    // The slots that give back their oldest segment, in this order; one may be named more than once.
    std::vector<std::uint32_t> takings;
    // How many of these a slot in need may have for itself.  Else who is quickest would have them again: a thread of
    // the same user that already has too many.
    std::map<std::uint32_t, std::uint32_t> grants;
};

// At first goes what ended before past_ns (monotonic), whosever it is, and then what is oldest of those who have more
// than their part; at most `wanted` segments.
PoolPlan plan_pool(const std::vector<SegmentHolder> &holders, std::uint32_t pool, std::uint32_t wanted,
                   std::uint64_t past_ns);

} // namespace incident::daemon
