// Tries again what failed with an error that may be gone in a moment: a file, a page or a descriptor that was not to be
// had.  An incident, and what is to be added to one, is still in memory then.
#pragma once

#include "capture/os/result.h"

#include <chrono>
#include <string>
#include <utility>

namespace incident::daemon {

class Attempts {
public:
    explicit Attempts(std::string incident) : incident_(std::move(incident)) {}
    bool left() { return ++made_ < most; } // after an attempt: whether one more may be made
    // Pauses and returns true if the error may pass.
    bool may_pass(const Error &error);

private:
    static constexpr int most = 4;
    std::string incident_;
    int made_ = 0;
    std::chrono::milliseconds pause_{50}; // then twice as long each time
};

template <typename Attempt> auto attempt_again(const std::string &incident, Attempt attempt) {
    Attempts attempts(incident);
    auto result = attempt();
    while (!result && attempts.left() && attempts.may_pass(result.error()))
        result = attempt();
    return result;
}

} // namespace incident::daemon
