// Functions of the daemon on which the cost of a probe is measured: their CPU time with the probe and without it.
#pragma once

#include "capture/os/address.h"
#include "capture/os/result.h"
#include "daemon/os/clocks.h"

#include <algorithm>
#include <cstdint>

namespace incident::daemon {

// Where the function's first byte is in /proc/self/exe.  Error: it is not mapped from a file.
Result<capture::FileOffset> own_file_offset(capture::UserAddress address);

template <typename Function> Result<capture::FileOffset> own_file_offset(Function *function) {
    return own_file_offset(capture::UserAddress(reinterpret_cast<std::uint64_t>(function)));
}

// CPU time of a call in ns.  The quickest of several rounds counts, so that other work on this CPU does not.  `call`
// gets the number of the call, from 1.
template <typename Call> std::uint64_t quickest_call(unsigned rounds, unsigned calls, Call call) {
    std::uint64_t best = ~0ull;
    for (unsigned round = 0; round < rounds; ++round) {
        const std::uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        for (unsigned i = 0; i < calls; ++i)
            call(round * calls + i + 1);
        best = std::min(best, clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin);
    }
    return best / calls;
}

// What the probe adds to a call, in ns; 0 if the calls with the probe were measured as quicker than those without.
inline std::uint64_t added_ns(std::uint64_t with, std::uint64_t without) {
    return with - std::min(with, without);
}

} // namespace incident::daemon
