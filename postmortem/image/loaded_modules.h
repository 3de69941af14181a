// A crash image's modules with their ELF headers: what was loaded where.
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
    std::uint64_t bias = 0; // what is added to the layout's addresses
    ElfReader file;         // empty: the headers were read out of captured memory
    bool verified = false;  // the file is the one that was mapped, byte for byte
};

inline constexpr std::size_t module_notes_max = 32; // files named in the notes; the others are counted

class LoadedModules {
public:
    // notes: is told of each module whose headers cannot be had.
    LoadedModules(const CrashImage &image, const std::vector<ModuleFile> &files, std::vector<std::string> &notes);

    const std::vector<std::optional<LoadedElf>> &all() const { return elves_; } // indexed as image.modules
    // The program: what the kernel was told to execute.  Nothing: not known.
    std::optional<std::size_t> executable() const { return executable_; }
    const LoadedElf *executable_elf() const {
        return executable_ && elves_[*executable_] ? &*elves_[*executable_] : nullptr;
    }
    // Where ld.so is; 0: none.
    std::uint64_t loader_address() const { return loader_address_; }
    // Its interpreter's path (PT_INTERP); "" none, or not known.
    const std::string &interpreter() const { return interpreter_; }
    const std::optional<LoadedElf> &vdso() const { return vdso_; } // where its pages were captured

    // A mapping of a file shows what the file has: it was neither written to nor relocated, and the file
    // is not another now.
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
    std::uint64_t loader_address_ = 0;
    std::optional<LoadedElf> vdso_;
};

} // namespace incident::postmortem
