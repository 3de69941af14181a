// The files of a crash for a debugger: it looks for the program and its libraries at the paths that the process saw,
// and there they are not if the process had a root of its own, or if they were deleted or replaced.
#pragma once

#include "postmortem/image/crash_image.h"
#include "postmortem/image/module_files.h"

#include <string>

namespace incident::postmortem {

struct DebuggerFiles {
    std::string sysroot;   // a directory with links at those paths; "" this machine's own files are the process's
    std::string libraries; // a directory with links by their file names: a loader knows them by other paths; ""
    std::string list; // a file, JSON: [{file, path, start, offset, copy}] of what a debugger will not find itself; ""
    std::string executable; // the program, where it is not at its path; "" it is, or it is nowhere
    std::string warning;    // what is not as it should be; ""
};

// Makes them in `directory`, an empty one that only the caller can write.  `files` come from open_module_files(image).
Result<DebuggerFiles> debugger_files(const CrashImage &image, const std::vector<ModuleFile> &files,
                                     const std::string &directory);

} // namespace incident::postmortem
