#include "postmortem/image/loaded_modules.h"

#include <algorithm>
#include <elf.h>

namespace incident::postmortem {

namespace {

// Of an ELF file whose beginning is mapped there.
ElfReader reader_of(const ImageMemory &memory, UserAddress address) {
    return [&memory, start = address.value](std::uint64_t offset, std::span<char> into) {
        return offset <= UINT64_MAX - start && memory.read(start + offset, into) == into.size();
    };
}

Result<LoadedElf> loaded(ElfReader file, bool verified, const ElfReader &memory, UserAddress start,
                         FileOffset first_offset, Isa isa) {
    auto layout = read_elf_layout(file ? file : memory);
    if (!layout)
        return fail(layout.error());
    if (layout->isa != isa)
        return fail(isa == Isa::i386 ? "a 64-bit file in a 32-bit process" : "a 32-bit file in a 64-bit process");
    const auto bias = layout->bias(start, first_offset);
    if (!bias)
        return fail("its program headers do not agree with where it is mapped");
    return LoadedElf{std::move(*layout), *bias, std::move(file), verified};
}

} // namespace

LoadedModules::LoadedModules(const CrashImage &image, const std::vector<ModuleFile> &files,
                             std::vector<std::string> &notes)
    : image_(image), elves_(image.modules.size()), changed_(image.modules.size()) {
    std::size_t problems = 0;
    for (std::size_t i = 0; i < image.modules.size(); ++i)
        if (const std::string problem = load(i, files); !problem.empty() && problems++ < module_notes_max)
            notes.push_back(image.modules[i].path + ": " + problem);
    if (problems > module_notes_max)
        notes.push_back("the like of " + std::to_string(problems - module_notes_max) + " more files");
    find_executable();
    if (const LoadedElf *elf = executable_elf(); elf && elf->file)
        if (const ElfSegment *segment = elf->layout.first(PT_INTERP)) {
            interpreter_ = segment_bytes(elf->file, *segment, interpreter_max);
            interpreter_.resize(std::min(interpreter_.find('\0'), interpreter_.size()));
        }
    find_loader();
    if (const auto vdso = image.aux(AT_SYSINFO_EHDR); vdso && image.memory.word(*vdso))
        if (auto elf = loaded({}, false, reader_of(image.memory, UserAddress(*vdso)), UserAddress(*vdso), FileOffset(),
                              image.isa))
            vdso_ = std::move(*elf);
}

// Returns what is wrong with the module, or "".
std::string LoadedModules::load(std::size_t i, const std::vector<ModuleFile> &files) {
    const ImageModule &module = image_.modules[i];
    const bool has_file = i < files.size() && files[i].file;
    std::string problem = i < files.size() ? files[i].problem : "";
    changed_[i] = i < files.size() && files[i].changed;
    const ElfReader memory = module.first_offset == FileOffset() ? reader_of(image_.memory, module.start) : ElfReader();
    if (!has_file && (!memory || !image_.memory.word(module.start.value)))
        return problem.empty() ? "neither its file nor its ELF header in memory is known" : problem;
    auto elf = loaded(has_file ? postmortem::reader_of(files[i].file.get()) : ElfReader(),
                      has_file && files[i].verified, memory, module.start, module.first_offset, image_.isa);
    if (elf && has_file && files[i].kept)
        elf->file = {}; // of the bytes between its headers and tables it has none
    if (elf)
        elves_[i] = std::move(*elf);
    else
        (problem += problem.empty() ? "" : "; ") += elf.error().what;
    return problem;
}

void LoadedModules::find_executable() {
    // what the kernel was told to execute: ld.so itself, where that was
    const auto headers = image_.aux(AT_PHDR);
    const ImageModule *module = headers ? image_.module_at(UserAddress(*headers)) : nullptr;
    for (const ImageModule &other : image_.modules)
        if (!headers && !module && (other.path == image_.exe || other.path + " (deleted)" == image_.exe))
            module = &other;
    if (module)
        executable_ = module - image_.modules.data();
}

void LoadedModules::find_loader() {
    const auto base = image_.aux(AT_BASE);
    const ImageModule *module = base ? image_.module_at(UserAddress(*base)) : nullptr;
    const std::string_view name = std::string_view(interpreter_).substr(interpreter_.rfind('/') + 1);
    for (const ImageModule &other : image_.modules)
        if (!base && !module && !name.empty() && std::string_view(other.path).substr(other.path.rfind('/') + 1) == name)
            module = &other;
    loader_address_ = module ? module->start : UserAddress();
}

bool LoadedModules::as_in_file(const capture::Mapping &mapping) const {
    if (mapping.write)
        return false;
    const ImageModule *module = image_.module_at(mapping.start);
    if (!module || module->path != mapping.path)
        return true;
    // Memory that was relocated and then made read-only (PT_GNU_RELRO) lies in a writable segment.
    const std::size_t i = module - image_.modules.data();
    const auto &elf = elves_[i];
    if (changed_[i])
        return false;
    return !elf || !elf->layout.writable(mapping.start - elf->bias);
}

} // namespace incident::postmortem
