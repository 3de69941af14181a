// mini.core: an ELF core written from what a bundle holds, for plain debuggers.  It stands in for the
// core there is not: the process was killed (SIGKILL, OOM), or was not allowed one.
#pragma once

#include "postmortem/image/crash_image.h"
#include "postmortem/image/module_files.h"

#include <string>
#include <vector>

namespace incident::postmortem {

struct MiniCore {
    std::string bytes;
    std::vector<std::string> notes; // what had to be left out or made up, and why
};

// files: as open_module_files(image) gave them.  The same image and files make the same bytes.
// The files' headers are parsed: to be called where a crash of that does no harm.
// Errors: no thread's registers are known; a 32-bit process.
Result<MiniCore> make_mini_core(const CrashImage &image, const std::vector<ModuleFile> &files);

inline constexpr std::uint64_t mini_core_max = 64u << 20;           // bytes of the file
inline constexpr std::uint64_t mini_core_files_note_max = 4u << 20; // of NT_FILE, as the kernel's own limit

} // namespace incident::postmortem
