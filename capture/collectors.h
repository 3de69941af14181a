// Runs collectors one after another under one deadline, on a thread of its own:
// reading /proc/PID can hang in the kernel for as long as the process does (maps,
// cmdline, smaps_rollup wait for its mmap_lock), and a process that hangs is just
// what is looked at here.  A read that does not return in time is left behind with
// its thread; the caller goes on with what has been read.
#pragma once

#include "capture/collect.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace incident::capture {

using Clock = std::chrono::steady_clock;

class Deadline {
public:
    explicit Deadline(std::chrono::milliseconds span) : at_(Clock::now() + span) {}
    Clock::time_point at() const { return at_; }
    bool passed() const { return Clock::now() >= at_; }

private:
    Clock::time_point at_;
};

struct Outcome {
    bool ok = true;
    std::string error; // why not; or, with ok, what was cut
    std::vector<std::pair<std::string, std::string>> files;
};

// run and the checks may outlive the call: they own what they touch.
struct Collector {
    std::string name;
    std::function<Outcome(const Deadline &)> run;
};

struct Checks {
    std::string name;                    // of the result entry a failed check makes
    std::function<std::string()> before; // not "": nothing is collected
    std::function<std::string()> after;  // not "": what was collected is thrown away
};

void run_collectors(std::vector<Collector> collectors, Checks checks, std::chrono::milliseconds span, Collected &into);

// The same for a single job.  Refused: too many before it hang.
enum class Ran { Done, Late, Refused };
Ran run_bounded(std::function<void()> job, Clock::time_point until);

} // namespace incident::capture
