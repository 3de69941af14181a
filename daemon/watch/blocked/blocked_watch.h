// Finds waits that have lasted too long and are not over, for rules with when = "deadline".
//
// It does not poll.  A wait that a look at time T does not find begins after T.  So the next look is due at T +
// threshold, or when the earliest wait that was found becomes overdue.  Looks are delayed a little, so that one serves
// several waits.
#pragma once

#include "daemon/watch/watch.h"

#include <deque>

namespace incident::daemon {

class BlockedWatch : public Watch {
public:
    using Watch::Watch;

    void apply(std::uint64_t) override {} // poll() goes by the plan of now
    // Reports each wait once for each deadline it passes.  If a look finds that it has passed several, it is reported
    // for the longest.
    std::uint64_t poll(std::uint64_t now_ns) override;
    void before_rules(Occurrence &occurrence) override;
    void add_context(const FiredIncident &incident) const override;

private:
    // The longest deadline for which this wait was reported while it lasted; 0: none.
    std::uint64_t told_ns(std::uint32_t tid, std::uint64_t from_ns) const;

    static constexpr std::size_t remembered = 1024;
    struct Told {
        std::uint32_t tid = 0;
        std::uint64_t off_ns = 0, deadline_ns = 0;
    };
    std::deque<Told> told_; // the latest waits, also those that are over
};

// When to look again.  A known wait is overdue at due_ns, and a wait that has not begun cannot be overdue before now +
// threshold.  The look is delayed by at most a twentieth of the threshold, or 2 ms.
std::uint64_t next_look(std::uint64_t now_ns, std::uint64_t due_ns, std::uint64_t threshold_ns);

} // namespace incident::daemon
