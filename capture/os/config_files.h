// Configuration split over directories, as systemd has it: a later directory's file
// overrides an earlier one's of the same name, a link to /dev/null masks it.
#pragma once

#include "capture/os/result.h"

#include <string>
#include <vector>

namespace incident::capture {

struct ConfigFile {
    std::string path, text;
};

struct ConfigFiles {
    std::vector<ConfigFile> files;   // in the order of their names
    std::vector<std::string> masked; // names
};

// The *.toml files of the directories.  A directory that is not there is an Error when
// `required`.  A file larger than 1 MiB is one always.
Result<ConfigFiles> read_config_files(const std::vector<std::string> &directories, bool required);

Result<std::string> read_config_file(const std::string &path);

} // namespace incident::capture
