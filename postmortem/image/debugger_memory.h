// Makes memory that debuggers look for but nobody captured. Its content is known from elsewhere: the list of loaded
// files, glibc's list of threads, the ELF headers with the build-ids.
#pragma once

#include "postmortem/image/loaded_modules.h"
#include "postmortem/image/made_memory.h"

#include <string>
#include <vector>

namespace incident::postmortem {

struct DebuggerMemory {
    std::vector<MadeMemory> over;  // replaces captured bytes
    std::vector<MadeMemory> under; // fills gaps between captured bytes
};

// `notes` gets what could not be made, and what had to be invented.
DebuggerMemory make_debugger_memory(const CrashImage &image, const LoadedModules &modules,
                                    std::vector<std::string> &notes);

inline constexpr std::size_t link_map_entries_max = 4096; // a browser loads some 200 files

} // namespace incident::postmortem
