// Waits that have lasted too long and still do, for rules with when = "deadline".
//
// No polling: at a look at time T every wait not there began after T, so the next look is
// due at T + threshold, or when the earliest one there becomes overdue; put off by a
// little, so that one look serves several.
#pragma once

#include "daemon/facts/facts_cache.h"
#include "daemon/facts/occurrence.h"
#include "daemon/plan/trigger_plan.h"
#include "daemon/record/recorder.h"

#include <deque>
#include <functional>

namespace incident::daemon {

class BlockedWatch {
public:
    // Tells each wait once for each deadline it has passed, several at one look together.  Returns
    // when to look again (monotonic ns), 0: no rule wants it.
    std::uint64_t look(const Recorder &recorder, const TriggerPlan &plan, FactsCache &facts, std::uint64_t now_ns,
                       const std::function<void(Occurrence)> &on_overdue);
    // The longest deadline for which that wait was told of while it lasted; 0: none.
    std::uint64_t told_ns(std::uint32_t tid, std::uint64_t from_ns) const;

private:
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
