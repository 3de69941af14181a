// Finds the file with a module's debug information, and the file that it shares with others (dwz).
#pragma once

#include "capture/os/unique_fd.h"
#include "postmortem/unwind/handles.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

// Where separate debug files are looked for.
struct DebugSearch {
    std::string root;        // "/usr/lib/debug"
    std::string module_path; // of the module, for its .gnu_debuglink
    int by_build_id = -1;    // root/.build-id/…, opened before privileges were dropped; the caller owns it
    int fetched = -1;        // from debuginfod; the caller owns it
    // Whose the module's file is. Only that user's debug files and root's are taken: a build-id is no secret.
    std::optional<std::uint32_t> module_owner = {};
};

struct DebugFile {
    std::string where; // "in the file", its path, "debuginfod"; "" none found
    UniqueFd fd;
    ElfHandle elf; // null: it is in the module itself
    std::optional<std::uint32_t> module_owner = {};
};

// nullopt: no descriptor, or it cannot be told.
std::optional<std::uint32_t> owner_of(int fd);

// "/usr/lib/debug/.build-id/ab/cdef….debug"; "" if it is not a build-id.
std::string build_id_path(const std::string &root, const std::string &build_id);
// Opens a regular file. It does not block if the path is something else.
UniqueFd open_regular(const std::string &path);

// A file is taken only if it has the module's build-id. For a module without build-id, the CRC must be the one in
// .gnu_debuglink. `notes` gets files that exist but belong to another module.
DebugFile find_debug_file(Elf *module, const DebugSearch &search, std::vector<std::string> &notes);
// The file that .gnu_debugaltlink names; its elf is null if there is none.
DebugFile find_alternate(Dwarf *dwarf, const std::string &root, const DebugFile &beside,
                         std::vector<std::string> &notes);

} // namespace incident::postmortem
