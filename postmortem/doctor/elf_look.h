// Looks at what an ELF file offers for understanding a crash: debug information, unwind tables, frame pointers. The
// files belong to the watched programs and may be hostile, so a capped child parses them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace incident::postmortem::doctor {

struct ElfReport {
    std::string path;
    bool library = false;
    std::string build_id;
    std::string problem; // why nothing below is known; "" none
    std::string debug;   // "in the file", the path of its debug file; "none"
    std::string install; // the command that installs it; "" none known
    bool unwind_tables = false;
    std::uint64_t functions = 0, frame_pointers = 0; // functions with unwind tables; those of them that set up rbp
};

struct ElfInput {
    std::string path;
    std::vector<std::string> places; // paths to try; the first that exists is opened
    bool library = false;
};

std::vector<ElfReport> look_at_elf_files(const std::vector<ElfInput> &files, const std::string &debug_root);

} // namespace incident::postmortem::doctor
