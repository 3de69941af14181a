// Opens the files of a crash image's modules, as they are on this machine now.
#pragma once

#include "capture/os/unique_fd.h"
#include "postmortem/image/crash_image.h"

#include <string>
#include <vector>

namespace incident::postmortem {

struct ModuleFile {
    UniqueFd file;         // a regular file, for reading; invalid: problem says why
    bool verified = false; // its build-id is the mapped file's; false: the mapped file's build-id is unknown
    bool changed = false;  // another file has its name now; that file is not opened
    bool kept = false;     // file is the copy that the daemon has kept of it: without code and data
    std::string problem;
    std::string path; // where it was opened; "" not at all
};

// At most this many files are opened; a browser maps some 200.
inline constexpr std::size_t module_files_max = 512;

// Opens each module's file by its path below `root` ("": this machine's /; no path leads out of another root). A file
// with another build-id than the mapped one is left out. One that is not there is looked for where it lay on the host.
// Where the file is gone, its copy in `kept` is opened, a directory of the daemon's; "": none. The result has the same
// indices as image.modules.
std::vector<ModuleFile> open_module_files(const CrashImage &image, const std::string &root = "",
                                          const std::string &kept = "");

} // namespace incident::postmortem
