// What every verb of incidentctl is: a file holding its options, its help and its action.
#pragma once

#include "capture/core_link.h"
#include "capture/result.h"
#include "postmortem/json_view.h"
#include "postmortem/options.h"
#include "postmortem/output.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

enum ExitCode : int { exit_done = 0, exit_failed = 1, exit_usage = 2 };

using CoreFinder = std::function<Result<capture::CoreLink>(const capture::DeathIdentity &)>;

// What a verb works with, all of it replaceable by a test.
struct Session {
    Output &out;
    Output &err;
    std::string state = "/var/lib/incidentd";
    bool json = false;
    CoreFinder find_core; // asks the journal
    // Where incidentd looks for rules when nothing else is said.
    std::vector<std::string> rules = {"/usr/share/incidentd/rules.d", "/etc/incidentd/rules.d"};

    // "incidentctl: TEXT" on the error output; text may hold hostile bytes.
    void say(std::string_view text) const;
    // One JSON document on a line of the output.
    void print(const Json &document) const { out.line(dump_json(document)); }
    void print(const nlohmann::ordered_json &document) const { out.line(dump_json(document)); }
};

class Verb {
public:
    virtual ~Verb() = default;
    virtual std::string_view name() const = 0;
    virtual std::string_view summary() const = 0; // one line of the help
    virtual bool hidden() const { return false; } // for programs, not for people
    virtual void declare(Options &options) = 0;
    // The exit code, or what failed, which the caller prints.
    virtual Result<int> run(Session &session) = 0;
};

// In the order of the help.
std::vector<std::unique_ptr<Verb>> all_verbs();

} // namespace incident::postmortem
