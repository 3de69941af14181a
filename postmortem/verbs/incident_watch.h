// Waits for bundles to be committed. A commit is one rename: a name without a leading dot appears in <state>/incidents.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <chrono>
#include <string>
#include <vector>

namespace incident::postmortem {

class IncidentWatch {
public:
    // The directory `state` need not exist yet.
    static Result<IncidentWatch> start(std::string state);

    // Waits until something may have changed or the time is over; false: the time is over. The caller must list the
    // directory to see what has changed, because events only wake it up.
    Result<bool> wait(std::chrono::steady_clock::time_point until);

private:
    Status watch();
    std::string state_;
    UniqueFd inotify_;
    bool complete_ = false; // incidents/ itself is watched; false: a directory above it
};

// The names that earlier `wait`s returned, in <state>/.waited. This is best effort: without permission to write there,
// nothing is remembered and there is no error.
class WaitedMarker {
public:
    explicit WaitedMarker(const std::string &state);
    bool contains(const std::string &name) const;
    // Returns false if another wait was faster.
    bool claim(const std::string &name);

private:
    std::vector<std::string> read() const;
    UniqueFd fd_;
};

} // namespace incident::postmortem
