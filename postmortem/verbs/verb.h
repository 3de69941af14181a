// The interface of all verbs of incidentctl. Each verb is one file with its options, its help and its action.
#pragma once

#include "capture/os/result.h"
#include "postmortem/read/session.h"
#include "postmortem/verbs/options.h"

#include <memory>
#include <string_view>
#include <vector>

namespace incident::postmortem {

enum ExitCode : int { exit_done = 0, exit_failed = 1, exit_usage = 2 };

class Verb {
public:
    virtual ~Verb() = default;
    virtual std::string_view name() const = 0;
    virtual std::string_view summary() const = 0; // one line of the help
    virtual bool hidden() const { return false; } // for programs, not for people
    virtual void declare(Options &options) = 0;
    // Returns the exit code, or an Error that the caller prints.
    virtual Result<int> run(Session &session) = 0;
};

// In the order of the help.
std::vector<std::unique_ptr<Verb>> all_verbs();

} // namespace incident::postmortem
