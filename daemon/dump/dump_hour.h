// How many processes may still be made to dump within the hour, [safety] dumps_per_hour.  Both sides take from it: the
// daemon itself, and the kernel side from a place that it is lent.
//
// The hour goes on over a restart: what is taken stands in the state directory before a signal is sent, so that a
// daemon that is killed at any instruction has sent nothing that the next one does not count.  A place that was lent
// when the daemon was killed may have been used: it counts as taken.  One at a time is lent, so that a kill costs no
// more than that.  After a boot the hour is a fresh one.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <cstdint>
#include <deque>
#include <string>

namespace incident::daemon {

class DumpHour {
public:
    // allowance: what the kernel side may send; must outlive this.  None: nothing is lent.
    DumpHour(std::uint32_t limit, std::int32_t *allowance);
    DumpHour(const DumpHour &) = delete;
    DumpHour &operator=(const DumpHour &) = delete;

    // Goes on with the hour that the state directory tells of, and keeps it there from now on.  Times are of
    // CLOCK_MONOTONIC in this boot.
    Status keep_in(const std::string &state, std::string boot_id, std::uint64_t now_ns);

    // How many are left.  What the kernel side has used is seen here, by its being gone: call it every second.
    std::uint32_t left(std::uint64_t now_ns);
    // Why there is none; "" where there is one.
    std::string spent(std::uint64_t now_ns);

    // One is taken, before its signal is sent.
    Status take(std::uint64_t now_ns);
    void give_back(std::uint64_t now_ns); // the last taken: nothing was sent

    Status lend(std::uint64_t now_ns);         // to the kernel side, where it has none and one is left
    void take_back_lent(std::uint64_t now_ns); // what it has not used

private:
    struct Place {
        std::uint64_t taken_ns;
        bool certain; // a signal was sent
    };
    void settle(std::uint64_t now_ns);
    Status write();
    void parse(const std::string &text, std::uint64_t now_ns);

    std::uint32_t limit_;
    std::int32_t *allowance_;
    std::int32_t lent_ = 0; // of it the kernel side has at most so many left
    std::deque<Place> taken_;
    UniqueFd state_;
    std::string path_, boot_id_, written_;
};

} // namespace incident::daemon
