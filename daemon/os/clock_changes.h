// Remembers when the machine slept and when its clock was set.  Events are recorded by CLOCK_MONOTONIC, which knows of
// neither: without this, what happened before a night's sleep would be told as of the morning.
#pragma once

#include "capture/os/unique_fd.h"
#include "daemon/os/clocks.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace incident::daemon {

class ClockChanges : public Clock {
public:
    // The three clocks, read for tests in another way.
    using Read = std::function<capture::Clocks()>;
    explicit ClockChanges(Read read = {});

    // Who knows when processes ran again after the last sleep (0: nobody).  Without it a sleep is told as of when it
    // was noticed, and what happened meanwhile as of before it.
    using Thawed = std::function<capture::MonotonicTime()>;
    void tell_thawed(Thawed thawed) { thawed_ = std::move(thawed); }

    // With the changes so far, also those that look() has not seen yet.
    capture::Clocks read(std::string boot_id) const override;
    // Readable when a clock has jumped, which the end of a sleep is as well; then call look().  -1: the kernel cannot
    // tell.
    int fd() const { return timer_.get(); }
    // Call it once a second too: slow corrections of the clock (adjtime) are no jumps.
    void look();

private:
    static constexpr std::size_t most = 64;              // the newest
    static constexpr std::int64_t jump_ns = 100'000'000; // less is taken for a correction

    void note(const capture::Clocks &now) const;
    bool arm();

    Read read_;
    Thawed thawed_;
    UniqueFd timer_;
    mutable capture::Clocks last_;
    mutable std::vector<capture::ClockChange> changes_; // oldest first
};

} // namespace incident::daemon
