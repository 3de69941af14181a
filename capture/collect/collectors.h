// Runs collectors one after another under one deadline, on a thread of its own.  Reading /proc/PID can hang in the
// kernel as long as the process hangs (maps, cmdline and smaps_rollup wait for its mmap_lock), and processes that hang
// are often the reason for an incident.  If a read does not return in time, its thread is left behind, and the caller
// goes on with what was read.
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/hanging.h"

#include <functional>
#include <memory>
#include <optional>
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
    // Passes when a part of what is left has.
    Deadline share(int part) const { return Deadline(Clock::now() + (at_ - Clock::now()) / part); }

private:
    explicit Deadline(Clock::time_point at) : at_(at) {}

    Clock::time_point at_;
};

struct Outcome {
    bool ok = true;
    std::string error; // why it failed; or, with ok, what was cut
    std::vector<std::pair<std::string, std::string>> files;
};

// run and the checks must own what they use, because they may outlive the call.
struct Collector {
    std::string name;
    std::function<Outcome(const Deadline &)> run;
};

struct Checks {
    std::string name;                    // of the result entry that a failed check makes
    std::function<std::string()> before; // if the result is not "", nothing is collected
    std::function<std::string()> after;  // if the result is not "", what was collected is thrown away
    std::function<std::string()> each;   // after each collector: if not "", its files are thrown away, and it ends here
};

// subject: whom the collectors read of, and may hang on.
void run_collectors(const Subject &subject, std::vector<Collector> collectors, Checks checks,
                    std::chrono::milliseconds span, Collected &into);

// The same for a single job, whose exceptions are thrown to the caller.  Refused: too many earlier jobs hang on the
// same subject (hanging.h).  Jobs that wait for files are counted apart from those that wait for processes, because the
// owner of a file can make its reader hang.
enum class Ran { Done, Late, Refused };
enum class Awaits { Process, File };
Ran run_bounded(const Subject &subject, std::function<void()> job, Clock::time_point until,
                Awaits awaits = Awaits::Process);

// How long to wait for files of a subject: half of `span` for each reader that hangs on files of the same user already,
// so that those who wait in line behind it lose no more than twice the span to one user.
std::chrono::milliseconds patience_with(const Subject &subject, std::chrono::milliseconds span);

// Runs a job that may hang on a file.  Returns its answer, or an Error (ETIMEDOUT, EBUSY) after `span`.  The job must
// own what it uses, because it may outlive the call.
template <typename T>
Result<T> within(const Subject &subject, std::chrono::milliseconds span, std::function<Result<T>()> job) {
    auto answer = std::make_shared<std::optional<Result<T>>>();
    const auto run = [answer, job = std::move(job)] { answer->emplace(job()); };
    switch (run_bounded(subject, run, Clock::now() + span, Awaits::File)) {
    case Ran::Done:
        return std::move(**answer);
    case Ran::Late:
        return fail(Error{"did not answer within " + std::to_string(span.count()) + " ms", ETIMEDOUT});
    case Ran::Refused:
        break;
    }
    return fail(Error{"is not looked at: too many files looked at before do not answer", EBUSY});
}

} // namespace incident::capture
