// Starts programs, and keeps incidentctl alive when a signal is meant for them.
#pragma once

#include "capture/os/result.h"

#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace incident::postmortem {

struct SpawnOptions {
    int input = -1, output = -1, error = -1;                      // its standard streams; -1: ours
    std::vector<std::pair<std::string, std::string>> environment; // on top of ours
};

// argv[0] is looked up in PATH.  The child starts with no signal blocked or ignored.
// An Error with code ENOENT: no such program.
Result<pid_t> spawn(const std::vector<std::string> &argv, const SpawnOptions &options = {});
// waitpid's status.
Result<int> wait_child(pid_t child);

// Delays signals that would end the program before it has cleaned up: SIGINT, SIGTERM, SIGHUP, SIGQUIT. SIGCHLD is
// blocked too, so that it can be waited for.
class SignalScope {
public:
    SignalScope();
    ~SignalScope(); // a termination signal received meanwhile now takes effect
    SignalScope(const SignalScope &) = delete;
    SignalScope &operator=(const SignalScope &) = delete;

    // A signal that asks to stop has arrived.
    bool interrupted();
    // Waits for child, passing SIGTERM and SIGHUP on to it.  SIGINT and SIGQUIT come from
    // the terminal, which sends them to the child as well: they are dropped.
    Result<int> wait(pid_t child);

private:
    int received_ = 0;
};

} // namespace incident::postmortem
