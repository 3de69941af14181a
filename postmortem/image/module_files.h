// The files of a crash image's modules, as they are on this machine now.
#pragma once

#include "capture/os/unique_fd.h"
#include "postmortem/image/crash_image.h"

#include <string>
#include <vector>

namespace incident::postmortem {

struct ModuleFile {
    UniqueFd file;         // a regular file, for reading; invalid: problem says why
    bool verified = false; // its build-id is the one that was mapped; false: nobody knows which was
    bool changed = false;  // another file than was mapped has its name now; it is not given
    std::string problem;
};

// At most so many are opened: a browser maps some 200.
inline constexpr std::size_t module_files_max = 512;

// Opens each module's file, by its path beneath root ("": this machine's /; else nothing leads out of it).
// One whose build-id is another than was mapped is not given.  Indexed as image.modules.
std::vector<ModuleFile> open_module_files(const CrashImage &image, const std::string &root = "");

} // namespace incident::postmortem
