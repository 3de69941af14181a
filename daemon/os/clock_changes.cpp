#include "daemon/os/clock_changes.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <utility>

namespace incident::daemon {

namespace {

// Who is not running between two of the readings has read clocks of different times, so that is tried again.
capture::Clocks read_together() {
    constexpr std::uint64_t at_once_ns = 20'000;
    constexpr int tries = 20;
    capture::Clocks best;
    std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();
    for (int i = 0; i < tries && shortest > at_once_ns; ++i) {
        const auto begin = capture::MonotonicTime::now();
        const auto boottime = capture::BootTime::now();
        const auto realtime = capture::WallTime::now();
        const std::uint64_t took = capture::MonotonicTime::now().ns - begin.ns;
        if (took < shortest)
            best = {begin, boottime, realtime, {}, {}};
        shortest = std::min(shortest, took);
    }
    return best;
}

std::int64_t difference(std::uint64_t later, std::uint64_t earlier) {
    return static_cast<std::int64_t>(later - earlier);
}

} // namespace

ClockChanges::ClockChanges(Read read)
    : read_(read ? std::move(read) : read_together),
      timer_(::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK)), last_(read_()) {
    if (!arm())
        timer_.reset();
}

// It never expires, and is cancelled when the clock is set or the machine has slept (timerfd_create(2)).
bool ClockChanges::arm() {
    itimerspec never{};
    never.it_value.tv_sec = std::numeric_limits<time_t>::max() / 2;
    return timer_ && ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, nullptr) == 0;
}

void ClockChanges::look() {
    note(read_());
    std::uint64_t expired = 0;
    if (timer_ && ::read(timer_.get(), &expired, sizeof(expired)) < 0 && errno == ECANCELED)
        (void)arm(); // which succeeded before
}

void ClockChanges::note(const capture::Clocks &now) const {
    const std::int64_t passed = difference(now.monotonic.ns, last_.monotonic.ns);
    const std::int64_t slept = difference(now.boottime.ns, last_.boottime.ns) - passed;
    const std::int64_t set = difference(now.realtime.ns, last_.realtime.ns) - passed - slept;
    const capture::MonotonicTime before = std::exchange(last_, now).monotonic;
    if (slept < jump_ns && std::abs(set) < jump_ns)
        return;
    capture::MonotonicTime at = now.monotonic;
    if (slept >= jump_ns && thawed_)
        if (const auto thawed = thawed_(); thawed > before && thawed < now.monotonic)
            at = thawed;
    if (changes_.size() == most)
        changes_.erase(changes_.begin());
    changes_.push_back({at, now.boottime - (now.monotonic.ns - at.ns),
                        slept < jump_ns ? 0 : static_cast<std::uint64_t>(slept), std::abs(set) < jump_ns ? 0 : set});
}

capture::Clocks ClockChanges::read(std::string boot_id) const {
    capture::Clocks now = read_();
    note(now);
    now.boot_id = std::move(boot_id);
    now.changes = changes_;
    return now;
}

} // namespace incident::daemon
