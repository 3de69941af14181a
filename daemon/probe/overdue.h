// Finds calls that are still running although their time is up.
//
// It does not poll.  A call that a scan at time T has not seen began after T.  So the next scan is due at T + the
// smallest threshold, or when a call that was seen becomes overdue, whichever comes first.  A slack of max(threshold /
// 20, 2 ms) lets several calls share a wake-up, so a call is found at most that slack, and the delay of the wake-up,
// too late.
#pragma once

#include "daemon/probe/latency_kernel.h"

#include <functional>
#include <map>
#include <set>

namespace incident::daemon {

struct OverdueCall {
    ThreadCalls thread;
    bpf::call_frame frame{};
    std::uint32_t depth = 0; // how many calls of functions are around it
    bool pair = false;
    std::uint64_t threshold_ns = 0;
    std::uint64_t now_ns = 0; // monotonic time of the scan
};

class OverdueScanner {
public:
    static constexpr std::uint64_t never = ~0ull;

    struct Watch {
        std::uint64_t threshold_ns = 0;
        std::uint64_t since_ns = 0; // monotonic: calls that began earlier are ignored
    };
    using Thresholds = std::multimap<std::uint32_t, Watch>; // by probe

    explicit OverdueScanner(capture::OsRoots os) : os_(std::move(os)) {}

    // A call is reported once for each threshold it passes.  After a change a scan is due at once.
    void watch(Thresholds thresholds);
    // Monotonic time; `never` while nothing is watched.
    std::uint64_t next_scan() const { return next_; }
    // doubt: says why it is not proven that the call is still running; "" if it is.
    using Doubt = std::function<std::string(const OverdueCall &)>;
    void scan(const LatencyKernel &kernel, std::uint64_t now, const std::function<void(const OverdueCall &)> &fire,
              const Doubt &doubt = {});

    // How many calls looked overdue, although the thread had already left them by longjmp or an exception and only
    // their frames were still there.
    std::uint64_t left_unseen() const { return left_unseen_; }

    // By probe, how many calls were not reported because of a doubt, and the last doubt.
    struct Doubted {
        std::uint64_t calls = 0;
        std::string why;
    };
    Doubted doubted(std::uint32_t probe) const;
    void forget_doubts(std::uint32_t probe) { doubted_.erase(probe); } // call it when another probe gets the index

private:
    struct Key {
        std::uint32_t slot, probe;
        std::uint64_t generation, start_ns, threshold_ns;
        auto operator<=>(const Key &) const = default;
    };
    struct Scan {
        const std::function<void(const OverdueCall &)> &fire;
        const Doubt &doubt;
        std::set<Key> still;
    };
    void look_at(const OverdueCall &call, Scan &scan);

    capture::OsRoots os_;
    Thresholds thresholds_;
    std::set<Key> fired_; // calls still in flight that were reported or doubted
    std::map<std::uint32_t, Doubted> doubted_;
    std::uint64_t next_ = never;
    std::uint64_t left_unseen_ = 0;
};

// The stack pointer of a thread that is off the CPU; nullopt: the thread runs, or is gone.
std::optional<std::uint64_t> stack_pointer_of(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid);

// Whether the thread is off the CPU with its stack pointer above the frame, which means that the function has ended.
// false: it has not, or it cannot be told because the thread runs.
bool has_left(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid, const bpf::call_frame &frame);

// Where the time of a call that still runs has gone until `now`.  The running time may be wrong by a tick, because the
// scheduler's account may have been that late when the call began.
struct TimeSplit {
    std::uint64_t running_ns = 0, runnable_ns = 0, blocked_ns = 0;
};
std::optional<TimeSplit> split_so_far(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid,
                                      const bpf::call_frame &frame, std::uint64_t now);

} // namespace incident::daemon
