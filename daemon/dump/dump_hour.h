// Counts how many processes may still be made to dump within the hour ([safety] dumps_per_hour).  The daemon takes
// places from the hour, and it lends places to the kernel side, which signals on its own.
//
// The hour goes on after a restart.  A place is written to the state directory before a signal is sent, so even if the
// daemon is killed at any instruction, the next one counts every signal that was sent.  A place that was lent when the
// daemon was killed may have been used, so it counts as taken.  Only one place is lent at a time, so that a kill costs
// no more than that.  A boot begins a fresh hour.
//
// Users share the places (rules/model/hourly_share.h).  Whom the kernel side has signalled is known only when its event
// is read; until then, but not for long, it is lent no other place.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>

namespace incident::daemon {

class DumpHour {
public:
    // allowance: how many signals the kernel side may send; must outlive this object.  nullptr: nothing is lent.
    DumpHour(std::uint32_t limit, std::int32_t *allowance);
    DumpHour(const DumpHour &) = delete;
    DumpHour &operator=(const DumpHour &) = delete;

    // Goes on with the hour that is written in the state directory, and keeps it there from now on.  Times are those of
    // CLOCK_MONOTONIC in this boot.
    Status keep_in(const std::string &state, std::string boot_id, std::uint64_t now_ns);

    // How many places are left.  This also notices what the kernel side has used, so call it every second.
    std::uint32_t left(std::uint64_t now_ns);
    // Why no place is left for this user (rules::user_of()); "" if one is left.
    std::string spent(std::uint32_t user, std::uint64_t now_ns);
    // The users for whom none is left now, although there is one for others.
    std::set<std::uint32_t> barred(std::uint64_t now_ns);

    // Takes a place.  Call it before the signal is sent.
    Status take(std::uint32_t user, std::uint64_t now_ns);
    void give_back(std::uint64_t now_ns); // the place taken last, because nothing was sent

    Status lend(std::uint64_t now_ns);                        // to the kernel side, if it has none and one is left
    void take_back_lent(std::uint64_t now_ns);                // what the kernel side has not used
    void used_lent(std::uint32_t user, std::uint64_t now_ns); // the kernel side has used one, for a process of hers

private:
    struct Place {
        std::uint64_t taken_ns;
        bool certain; // a signal was sent
        std::optional<std::uint32_t> user;
        bool unread = false; // the kernel side's, whose event has not been read
    };
    std::uint64_t taken_by(std::uint32_t user) const;
    // Counts what the kernel side has used since the last call, and forgets what is more than an hour old.
    void catch_up(std::uint64_t now_ns);
    Status write();
    void parse(const std::string &text, std::uint64_t now_ns);

    std::uint32_t limit_;
    std::int32_t *allowance_;
    std::int32_t lent_ = 0; // the kernel side has at most so many left
    std::deque<Place> taken_;
    UniqueFd state_;
    std::string path_, boot_id_, written_;
};

} // namespace incident::daemon
