// Runs the CoreFollower on a thread of its own.  To read gigabytes of journals, or journals on a disk that does not
// answer, takes seconds or never ends, and must keep neither the event loop nor the writer from their work.
#pragma once

#include "capture/os/result.h"
#include "daemon/write/core_follower.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace incident::daemon {

class CoreSearch {
public:
    // How long after the end of a search, in nanoseconds, its answer is waited for.
    static constexpr std::uint64_t patience_ns = 10'000'000'000;

    static constexpr std::size_t most_waiting = 1024; // for the thread, not for their cores

    static Result<std::unique_ptr<CoreSearch>> start(CoreFollower follower);
    ~CoreSearch(); // searches that are under way are given up, and a thread that hangs is left behind

    bool follow(WantedCore wanted);      // false: the thread hangs, and too many wait for it
    std::vector<FoundCore> take_found(); // when the descriptor fd() is readable
    int fd() const;
    // Bundles whose search should have ended `patience_ns` ago, and has not: each is named once.  If its answer comes
    // after all, take_found() returns it.
    std::vector<std::string> overdue(std::uint64_t now_ns);
    bool waiting() const { return !until_.empty(); }

private:
    struct Shared;
    explicit CoreSearch(std::shared_ptr<Shared> shared);
    std::shared_ptr<Shared> shared_;             // with the thread, which may outlive this
    std::map<std::string, std::uint64_t> until_; // when the search for each bundle's core is over, CLOCK_MONOTONIC
};

} // namespace incident::daemon
