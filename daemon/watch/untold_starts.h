// Finds the processes of which the kernel side had no room to tell.
//
// It tells at most so many a second of one user's processes (bpf/shares.bpf.h), and tells again at the next call of the
// process.  One that makes no further call would never be known; beside a loop of forks that may be most of them.
#pragma once

#include "capture/os/process_ref.h"
#include "capture/os/program.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace incident::daemon {

// When to look, in monotonic ns.  A look takes as long as there are processes, so it is given a share of the time.
class UntoldPace {
public:
    // refused: how many events of that kind have been lost so far.
    bool due(std::uint64_t refused, std::uint64_t now_ns) {
        missed_ |= refused != refused_;
        refused_ = refused;
        return missed_ && now_ns >= next_ns_;
    }
    void looked(std::uint64_t from_ns, std::uint64_t until_ns) {
        missed_ = false;
        next_ns_ = until_ns + std::max(shortest_ns, (until_ns - from_ns) * rest_factor);
    }

private:
    static constexpr std::uint64_t shortest_ns = 1'000'000'000, rest_factor = 50; // at most 2 % of the time

    std::uint64_t refused_ = 0, next_ns_ = 0;
    bool missed_ = false;
};

// What has been looked at before, and is what it was.
class SeenProcesses {
public:
    // Whether the process, or what it executes, is new; then it is known from now on.
    bool is_new(const capture::ProcessRef &process, const capture::Program &program) {
        Seen &now = now_[process.pid];
        now = {process, program};
        const auto before = before_.find(process.pid);
        return before == before_.end() || !before->second.process.same_to_a_tick(process) ||
               before->second.program != program;
    }
    // Ends a look at all processes: the others have ended.
    void end_look() {
        before_.swap(now_);
        now_.clear();
    }
    void clear() {
        before_.clear();
        now_.clear();
    }

private:
    struct Seen {
        capture::ProcessRef process;
        capture::Program program;
    };
    std::unordered_map<std::uint32_t, Seen> before_, now_; // by pid
};

} // namespace incident::daemon
