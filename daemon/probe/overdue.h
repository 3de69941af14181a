// Calls that are still running though their time is up.
//
// No polling: a call that a scan at time T has not seen began after T, so the next scan is
// due at T + the smallest threshold, or when the next call already seen comes due,
// whichever is first; a slack of max(threshold / 20, 2 ms) lets several share a wake-up.
// So a call is found at most that slack, and the wake-up's own lateness, after its threshold.
#pragma once

#include "daemon/probe/latency_kernel.h"

#include <functional>
#include <map>
#include <set>

namespace incident::daemon {

struct OverdueCall {
    ThreadCalls thread;
    bpf::call_frame frame{};
    std::uint32_t depth = 0; // functions' calls around it
    bool pair = false;
    std::uint64_t threshold_ns = 0;
    std::uint64_t now_ns = 0; // monotonic, of the scan
};

class OverdueScanner {
public:
    static constexpr std::uint64_t never = ~0ull;

    struct Watch {
        std::uint64_t threshold_ns = 0;
        std::uint64_t since_ns = 0; // monotonic: calls that began earlier are not looked at
    };
    using Thresholds = std::multimap<std::uint32_t, Watch>; // by probe

    explicit OverdueScanner(capture::OsRoots os) : os_(std::move(os)) {}

    // A call fires once for each threshold it passes.  A change is due at once.
    void watch(Thresholds thresholds);
    // Monotonic time; `never` while nothing is watched.
    std::uint64_t next_scan() const { return next_; }
    // doubt: why it is not proven that the call is still running, "" where it is.
    using Doubt = std::function<std::string(const OverdueCall &)>;
    void scan(const LatencyKernel &kernel, std::uint64_t now, const std::function<void(const OverdueCall &)> &fire,
              const Doubt &doubt = {});

    // Calls that were overdue by their frame, but which the thread had left by longjmp or
    // an exception: their frames had not been swept yet.
    std::uint64_t left_unseen() const { return left_unseen_; }

    // Calls that were not told of because of a doubt, by probe; and why the last was not.
    struct Doubted {
        std::uint64_t calls = 0;
        std::string why;
    };
    Doubted doubted(std::uint32_t probe) const;
    void forget_doubts(std::uint32_t probe) { doubted_.erase(probe); } // its index has another probe now

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
    std::set<Key> fired_; // of calls still in flight; or not told of
    std::map<std::uint32_t, Doubted> doubted_;
    std::uint64_t next_ = never;
    std::uint64_t left_unseen_ = 0;
};

// Of a thread that is off the CPU; nullopt: it runs, or is gone.
std::optional<std::uint64_t> stack_pointer_of(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid);

// Whether the thread is off the CPU with its stack pointer above the frame: the function's
// stack is gone.  false: it is not, or it cannot be told (running).
bool has_left(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid, const bpf::call_frame &frame);

// Where the time of a call that still runs has gone until `now`; running may be wrong by a
// tick, in which the scheduler's account at the call's entry lagged.
struct TimeSplit {
    std::uint64_t running_ns = 0, runnable_ns = 0, blocked_ns = 0;
};
std::optional<TimeSplit> split_so_far(const capture::OsRoots &os, std::uint32_t tgid, std::uint32_t tid,
                                      const bpf::call_frame &frame, std::uint64_t now);

} // namespace incident::daemon
