// Reads configuration that is split over directories as systemd does it: a file in a later directory overrides one of
// the same name in an earlier directory, and a link to /dev/null masks it.
#pragma once

#include "capture/os/result.h"

#include <string>
#include <vector>

namespace incident::capture {

// Where incidentd looks if nobody names others.
inline const std::vector<std::string> default_rule_dirs = {"/usr/share/incidentd/rules.d", "/etc/incidentd/rules.d"};
inline const std::string default_config = "/etc/incidentd/incidentd.toml";

struct ConfigFile {
    std::string path, text;
};

struct ConfigFiles {
    std::vector<ConfigFile> files;   // in the order of their names
    std::vector<std::string> masked; // names
};

// The *.toml files of the directories.  A missing directory is an Error if `required`.  A file of more than 1 MiB
// always is.
Result<ConfigFiles> read_config_files(const std::vector<std::string> &directories, bool required);

Result<std::string> read_config_file(const std::string &path);

} // namespace incident::capture
