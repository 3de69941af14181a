// The modules of a crash, as the capped child uses them, and the memory that their files add to the captured memory.
#pragma once

#include "postmortem/image/crash_image.h"
#include "postmortem/unwind/analysis.h"
#include "postmortem/unwind/debug_info.h"
#include "postmortem/unwind/elf_module.h"
#include "postmortem/unwind/process_memory.h"
#include "postmortem/unwind/progress.h"

#include <memory>
#include <string>
#include <vector>

namespace incident::postmortem {

// The files of one module. The caller owns the descriptors; -1 none.
struct ModuleInput {
    int file = -1;
    std::string problem;  // why there is no file
    bool fetched = false; // file is debuginfod's
    bool kept = false;    // file is a copy without code and data
    int by_build_id = -1, fetched_debug = -1;
    // Parsing it has ended an earlier child.
    bool skip_file = false, skip_debug = false;
};

class ModuleSet : public ProcessMemory {
public:
    // `image` must outlive this object.
    // own_vdso is used if the vdso was not captured; "" none.
    ModuleSet(const CrashImage &image, std::vector<ModuleInput> inputs, std::string debug_root, Progress progress,
              std::string own_vdso = "");

    std::size_t read(std::uint64_t address, std::span<char> into) override;

    static constexpr std::size_t none = SIZE_MAX;
    // The index of the module that is mapped at an address; image.modules.size() is the vdso.
    std::size_t index_at(UserAddress address) const;
    // Null: it cannot be used; problem() says why.
    ElfModule *elf(std::size_t index);
    DebugInfo *debug(std::size_t index); // null: none
    const std::string &problem(std::size_t index) const { return entries_[index].problem; }
    // As long as the returned object lives, the parent blames this module if the child dies.
    Progress::Scope parsing(std::size_t index, Part part) const { return progress_.parsing(index, part); }

    std::string path(std::size_t index) const;
    std::string build_id(std::size_t index) const;
    void seen_on_stack(std::size_t index) { entries_[index].on_a_stack = true; }
    bool is_on_stack(std::size_t index) const { return entries_[index].on_a_stack; }
    // Records the state of a module's files, for modules on a stack.
    ModuleState state(std::size_t index);
    std::size_t size() const { return entries_.size(); }
    const CrashImage &image() const { return image_; }
    // Sets the captured memory that is used together with the files: the image's, or memory of another time, which must
    // outlive its use.
    const ImageMemory &captured() const { return *captured_; }
    void use_captured(const ImageMemory &memory) { captured_ = &memory; }
    std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

private:
    struct Entry {
        ModuleInput input;
        bool elf_tried = false, debug_tried = false, on_a_stack = false;
        std::string problem; // why elf is null, after it was tried
        std::unique_ptr<ElfModule> elf;
        std::unique_ptr<DebugInfo> debug;
    };
    Result<std::unique_ptr<ElfModule>> open_vdso() const;

    const CrashImage &image_;
    const ImageMemory *captured_ = &image_.memory;
    std::string debug_root_, own_vdso_;
    Progress progress_;
    UserAddress vdso_start_, vdso_end_;
    std::vector<Entry> entries_; // of image.modules, then the vdso
    std::vector<std::string> notes_;
};

} // namespace incident::postmortem
