// Where rules and configuration come from: files in directories, a later directory's
// file overriding an earlier one's of the same name, a link to /dev/null masking it.
#pragma once

#include "capture/os/result.h"
#include "daemon/service/options.h"
#include "rules/files/parse.h"

#include <string>
#include <vector>

namespace incident::daemon {

inline const std::vector<std::string> default_rule_dirs = {"/usr/share/incidentd/rules.d", "/etc/incidentd/rules.d"};
inline const std::string default_config = "/etc/incidentd/incidentd.toml";

struct LoadedRules {
    rules::ParsedRules parsed;
    std::vector<std::string> masked; // names
    std::size_t files = 0;
};

// A directory that is not there is an Error when it was asked for by name, not when it
// is a default one.
// allow_dump: [safety], for the warning about rules that ask for a dump.
Result<LoadedRules> load_rules(const std::vector<std::string> &directories, bool explicit_directories,
                               bool allow_dump = false);

// As the command line says.
std::vector<std::string> rule_directories(const Options &options);
Result<LoadedRules> load_rules_of(const Options &options, bool allow_dump);
Result<rules::ParsedConfig> load_config_of(const Options &options);

// explicit_file: it must exist; else a missing file means the defaults.
Result<rules::ParsedConfig> load_config(const std::string &file, bool explicit_file);

} // namespace incident::daemon
