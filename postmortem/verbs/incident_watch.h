// Waiting for bundles to be committed: a name without a leading dot that appears in
// <state>/incidents, which is one rename.
#pragma once

#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace incident::postmortem {

class IncidentWatch {
public:
    // state need not exist yet.
    static Result<IncidentWatch> start(std::string state);

    // Until something may have changed or the time is over; false: it is over.  What has
    // changed is for the caller to see by listing: events only wake it up.
    Result<bool> wait(std::chrono::steady_clock::time_point until);

private:
    Status watch();
    std::string state_;
    UniqueFd inotify_;
    bool complete_ = false; // incidents/ itself is watched, not a directory above it
};

// The names that earlier `wait`s returned, in <state>/.waited.  Best effort: who may
// not write there gets no memory, and is told nothing.
class WaitedMarker {
public:
    explicit WaitedMarker(const std::string &state);
    bool contains(const std::string &name) const;
    // false: another wait was faster.
    bool claim(const std::string &name);

private:
    std::vector<std::string> read() const;
    UniqueFd fd_;
};

} // namespace incident::postmortem
