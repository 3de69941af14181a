// Writes mini.core: an ELF core from the contents of a bundle, for plain debuggers. It is needed if there is no full
// core because the process was killed (SIGKILL, OOM) or was not allowed one.
#pragma once

#include "postmortem/image/crash_image.h"
#include "postmortem/image/module_files.h"

#include <string>
#include <vector>

namespace incident::postmortem {

struct MiniCore {
    std::string bytes;
    std::vector<std::string> notes; // what had to be left out or invented, and why
};

// `files` come from open_module_files(image). The same image and files give the same bytes. Call it only where a crash
// does no harm, because it parses the files' headers. Returns an Error if no thread's registers are known, or for a
// process of the x32 ABI.
Result<MiniCore> make_mini_core(const CrashImage &image, const std::vector<ModuleFile> &files);

inline constexpr std::uint64_t mini_core_max = 64u << 20;           // bytes of the file
inline constexpr std::uint64_t mini_core_files_note_max = 4u << 20; // of NT_FILE, as the kernel's own limit

} // namespace incident::postmortem
