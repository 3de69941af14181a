// Loads rules and configuration from files in directories.  A file in a later directory overrides one of the same name
// in an earlier directory, and a link to /dev/null masks it.
#pragma once

#include "capture/os/config_files.h"
#include "capture/os/result.h"
#include "daemon/service/options.h"
#include "rules/files/parse.h"

#include <string>
#include <vector>

namespace incident::daemon {

using capture::default_config;
using capture::default_rule_dirs;

struct LoadedRules {
    rules::ParsedRules parsed;
    std::vector<std::string> masked; // names
    std::size_t files = 0;
};

// A missing directory is an Error if it was asked for by name, but not if it is a default one.
// allow_dump: [safety], for the warning about rules that ask for a dump.
Result<LoadedRules> load_rules(const std::vector<std::string> &directories, bool explicit_directories,
                               bool allow_dump = false);

// Loads what the command line says.
std::vector<std::string> rule_directories(const Options &options);
Result<LoadedRules> load_rules_of(const Options &options, bool allow_dump);
Result<rules::ParsedConfig> load_config_of(const Options &options);

// explicit_file: the file must exist; else a missing file means the defaults.
Result<rules::ParsedConfig> load_config(const std::string &file, bool explicit_file);

} // namespace incident::daemon
