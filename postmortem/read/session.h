// What all verbs of incidentctl share: where incidents are, and where to print.
#pragma once

#include "capture/core/core_link.h"
#include "capture/os/config_files.h"
#include "capture/os/result.h"
#include "postmortem/read/json_view.h"
#include "postmortem/terminal/output.h"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

using CoreFinder = std::function<Result<capture::CoreLink>(const capture::DeathIdentity &)>;

// A test can replace each member.
struct Session {
    Output &out;
    Output &err;
    std::string state = "/var/lib/incidentd";
    bool json = false;
    CoreFinder find_core; // asks the journal
    capture::OsRoots os;  // where systemd-coredump's cores are
    std::vector<std::string> rules = capture::default_rule_dirs;

    // "incidentctl: TEXT" on the error output; text may hold hostile bytes.
    void say(std::string_view text) const;
    // One JSON document on a line of the output.
    void print(const Json &document) const { out.line(dump_json(document)); }
    void print(const nlohmann::ordered_json &document) const { out.line(dump_json(document)); }
};

} // namespace incident::postmortem
