// A file that holds space, for the hour in which others have filled the disk and nothing of ours may go: it is given up
// then, and made again when there is room.
#pragma once

#include "capture/os/result.h"

#include <chrono>
#include <cstdint>

namespace incident::daemon {

class SpaceReserve {
public:
    // It is made only where this many times as much is free.
    static constexpr std::uint64_t ease = 4;

    // directory: of the bundles, and not owned.  bytes: 0: none is made.
    SpaceReserve(int directory, std::uint64_t bytes);

    bool held() const { return held_; }
    // Makes the file if it is not there and `free` bytes are enough of room for it.  After an error it is tried again
    // when a minute has passed.
    Status hold(std::uint64_t free);
    Status give_up();

private:
    int directory_;
    std::uint64_t bytes_;
    bool held_ = false;
    std::chrono::steady_clock::time_point not_before_; // it is tried again
};

} // namespace incident::daemon
