// The ELF headers of a crash image's modules: what was loaded where.
#pragma once

#include "postmortem/image/elf_layout.h"
#include "postmortem/image/module_files.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

struct LoadedElf {
    ElfLayout layout;
    LoadBias bias;
    ElfReader file;        // empty: the headers come from captured memory
    bool verified = false; // the file is exactly the one that was mapped
};

inline constexpr std::size_t module_notes_max = 32; // this many files are named in the notes; the others are counted

class LoadedModules {
public:
    // `notes` gets each module whose headers cannot be read.
    LoadedModules(const CrashImage &image, const std::vector<ModuleFile> &files, std::vector<std::string> &notes);

    const std::vector<std::optional<LoadedElf>> &all() const { return elves_; } // indexed as image.modules
    // The program that the kernel was told to execute; not set if unknown.
    std::optional<std::size_t> executable() const { return executable_; }
    const LoadedElf *executable_elf() const {
        return executable_ && elves_[*executable_] ? &*elves_[*executable_] : nullptr;
    }
    // Where ld.so is; 0: none.
    UserAddress loader_address() const { return loader_address_; }
    // The program's interpreter (PT_INTERP); "" if it has none or it is unknown.
    const std::string &interpreter() const { return interpreter_; }
    const std::optional<LoadedElf> &vdso() const { return vdso_; } // set if its pages were captured

    // True if a mapping has the same bytes as its file: it was neither written to nor relocated, and the file is still
    // the same one.
    bool as_in_file(const capture::Mapping &mapping) const;

private:
    std::string load(std::size_t i, const std::vector<ModuleFile> &files);
    void find_executable();
    void find_loader();

    const CrashImage &image_;
    std::vector<std::optional<LoadedElf>> elves_;
    std::vector<bool> changed_; // ModuleFile::changed
    std::optional<std::size_t> executable_;
    std::string interpreter_;
    UserAddress loader_address_;
    std::optional<LoadedElf> vdso_;
};

} // namespace incident::postmortem
