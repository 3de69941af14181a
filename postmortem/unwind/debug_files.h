// The file that holds a module's debug information, and the one that file shares with others (dwz).
#pragma once

#include "capture/os/unique_fd.h"
#include "postmortem/unwind/handles.h"

#include <string>
#include <vector>

namespace incident::postmortem {

// Where separate debug files are looked for.
struct DebugSearch {
    std::string root;        // "/usr/lib/debug"
    std::string module_path; // of the module, for its .gnu_debuglink
    int by_build_id = -1;    // root/.build-id/…, opened before privileges were dropped; stays the caller's
    int fetched = -1;        // from debuginfod; stays the caller's
};

struct DebugFile {
    std::string where; // "in the file", its path, "debuginfod"; "" none found
    UniqueFd fd;
    ElfHandle elf; // null: in the module's own
};

// "/usr/lib/debug/.build-id/ab/cdef….debug"; "" for what is no build-id.
std::string build_id_path(const std::string &root, const std::string &build_id);
// A regular file, opened without waiting for what else it may be.
UniqueFd open_regular(const std::string &path);

// A file is taken only if its build-id is the module's (of one without: if its CRC is what .gnu_debuglink
// says).  notes: files that were there but are not this module's.
DebugFile find_debug_file(Elf *module, const DebugSearch &search, std::vector<std::string> &notes);
// The file .gnu_debugaltlink names; without an elf where there is none.
DebugFile find_alternate(Dwarf *dwarf, const std::string &root, const std::string &beside,
                         std::vector<std::string> &notes);

} // namespace incident::postmortem
