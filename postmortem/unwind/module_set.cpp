#include "postmortem/unwind/module_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <sys/auxv.h>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t vdso_max = 64u << 10; // bytes; the kernel's are two pages

} // namespace

ModuleSet::ModuleSet(const CrashImage &image, std::vector<ModuleInput> inputs, std::string debug_root,
                     Progress progress, std::string own_vdso)
    : ProcessMemory(image.isa), image_(image), debug_root_(std::move(debug_root)), own_vdso_(std::move(own_vdso)),
      progress_(progress) {
    inputs.resize(image.modules.size() + 1);
    for (ModuleInput &input : inputs)
        entries_.emplace_back().input = std::move(input);
    for (const capture::Mapping &mapping : image.maps.all())
        if (mapping.path == "[vdso]") {
            vdso_start_ = mapping.start;
            vdso_end_ = mapping.end;
        }
    if (vdso_start_.value == 0)
        if (const auto start = image.aux(AT_SYSINFO_EHDR); start && *start < UINT64_MAX - vdso_max) {
            vdso_start_ = UserAddress(*start);
            vdso_end_ = vdso_start_ + vdso_max;
        }
}

std::size_t ModuleSet::read(std::uint64_t address, std::span<char> into) {
    std::size_t done = 0;
    while (done < into.size() && address <= UINT64_MAX - into.size()) {
        const std::uint64_t at = address + done;
        const std::span<char> rest = into.subspan(done);
        std::size_t got = captured_->read(at, rest);
        if (got == 0)
            if (const std::size_t index = index_at(UserAddress(at)); index != none)
                if (ElfModule *module = elf(index))
                    got = module->read(UserAddress(at), rest);
        if (got == 0)
            break;
        done += got;
    }
    return done;
}

std::size_t ModuleSet::index_at(UserAddress address) const {
    if (address >= vdso_start_ && address < vdso_end_)
        return image_.modules.size();
    const ImageModule *module = image_.module_at(address);
    const capture::Mapping *mapping = module ? image_.maps.find(address) : nullptr;
    if (!mapping || mapping->path != module->path || mapping->inode != module->inode)
        return none;
    return static_cast<std::size_t>(module - image_.modules.data());
}

Result<std::unique_ptr<ElfModule>> ModuleSet::open_vdso() const {
    std::string bytes(std::min(vdso_end_ - vdso_start_, vdso_max), '\0');
    bytes.resize(image_.memory.read(vdso_start_.value, bytes));
    if (bytes.empty())
        bytes = own_vdso_;
    if (bytes.empty())
        return fail("its pages were not captured");
    return ElfModule::of_memory(std::move(bytes), vdso_start_, image_.isa);
}

ElfModule *ModuleSet::elf(std::size_t index) {
    Entry &entry = entries_[index];
    if (entry.elf_tried)
        return entry.elf.get();
    entry.elf_tried = true;
    const bool vdso = index == image_.modules.size();
    if (entry.input.skip_file) {
        entry.problem = "not used: reading it ended the reader";
        return nullptr;
    }
    if (!vdso && entry.input.file < 0) {
        entry.problem = entry.input.problem.empty() ? "missing" : entry.input.problem;
        return nullptr;
    }
    const auto scope = parsing(index, Part::file);
    auto opened =
        vdso ? open_vdso()
             : ElfModule::open(entry.input.file, image_.modules[index], image_.maps, image_.isa, entry.input.kept);
    if (opened)
        entry.elf = std::move(*opened);
    else
        entry.problem = opened.error().what;
    return entry.elf.get();
}

DebugInfo *ModuleSet::debug(std::size_t index) {
    Entry &entry = entries_[index];
    if (entry.debug_tried)
        return entry.debug.get();
    entry.debug_tried = true;
    ElfModule *module = elf(index);
    if (!module || entry.input.skip_debug)
        return nullptr;
    const auto scope = parsing(index, Part::debug);
    DebugSearch search{debug_root_, path(index), entry.input.by_build_id, entry.input.fetched_debug,
                       owner_of(entry.input.file)};
    DebugFile file = find_debug_file(module->elf(), search, notes_);
    if (file.where.empty())
        return nullptr;
    entry.debug = std::make_unique<DebugInfo>(module->elf(), std::move(file), debug_root_, notes_);
    if (entry.debug->elf())
        module->add_symbols(entry.debug->elf());
    return entry.debug.get();
}

std::string ModuleSet::path(std::size_t index) const {
    return index < image_.modules.size() ? image_.modules[index].path : "[vdso]";
}

std::string ModuleSet::build_id(std::size_t index) const {
    return index < image_.modules.size() ? image_.modules[index].build_id : "";
}

ModuleState ModuleSet::state(std::size_t index) {
    Entry &entry = entries_[index];
    ModuleState state;
    state.path = path(index);
    state.build_id = build_id(index);
    state.on_a_stack = entry.on_a_stack;
    if (!entry.on_a_stack && !entry.elf_tried) {
        state.file = entry.input.file >= 0 ? "not needed" : entry.input.problem;
        return state;
    }
    if (ElfModule *module = elf(index)) {
        state.file = entry.input.fetched ? "debuginfod" : entry.input.kept ? "kept copy" : "used";
        if (state.build_id.empty()) {
            const auto scope = parsing(index, Part::file);
            state.build_id = module->build_id();
        }
    } else {
        state.file = entry.problem;
    }
    if (entry.on_a_stack) {
        const DebugInfo *info = debug(index);
        state.debug = info ? info->where() : entry.input.skip_debug ? "not used: reading it ended the reader" : "none";
    }
    return state;
}

} // namespace incident::postmortem
