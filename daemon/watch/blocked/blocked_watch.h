// Waits that have lasted too long and still do, for rules with when = "deadline".
//
// No polling: at a look at time T every wait not there began after T, so the next look is
// due at T + threshold, or when the earliest one there becomes overdue; put off by a
// little, so that one look serves several.
#pragma once

#include "daemon/watch/watch.h"

#include <deque>

namespace incident::daemon {

class BlockedWatch : public Watch {
public:
    using Watch::Watch;

    void apply(std::uint64_t) override {} // poll() goes by the plan of now
    // Tells of each wait once for each deadline it has passed; where it has passed several, of the longest.
    std::uint64_t poll(std::uint64_t now_ns) override;
    void before_rules(Occurrence &occurrence) override;
    void add_context(const FiredIncident &incident) const override;

private:
    // The longest deadline for which that wait was told of while it lasted; 0: none.
    std::uint64_t told_ns(std::uint32_t tid, std::uint64_t from_ns) const;

    static constexpr std::size_t remembered = 1024;
    struct Told {
        std::uint32_t tid = 0;
        std::uint64_t off_ns = 0, deadline_ns = 0;
    };
    std::deque<Told> told_; // the latest ones, those that are over too
};

// When to look again at what comes due at due_ns: what is not there yet cannot be overdue before
// now + threshold.  Put off by at most a twentieth of the threshold, or 2 ms.
std::uint64_t next_look(std::uint64_t now_ns, std::uint64_t due_ns, std::uint64_t threshold_ns);

} // namespace incident::daemon
