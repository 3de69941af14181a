// What an ELF file offers to the one who has to understand its crash: debug information, unwind
// tables, frame pointers.  The files are the watched programs', so they are parsed in a capped child.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace incident::postmortem::doctor {

struct ElfFacts {
    std::string path;
    bool library = false;
    std::string build_id;
    std::string problem; // why nothing below is known; "" none
    std::string debug;   // "in the file", the path of its debug file; "none"
    std::string install; // the command that brings it; "" none known
    bool unwind_tables = false;
    std::uint64_t functions = 0, frame_pointers = 0; // that have unwind tables; of these: that set up rbp
};

struct ElfInput {
    std::string path;
    std::vector<std::string> places; // where it is opened: the first that is there
    bool library = false;
};

std::vector<ElfFacts> look_at_elf_files(const std::vector<ElfInput> &files, const std::string &debug_root);

} // namespace incident::postmortem::doctor
