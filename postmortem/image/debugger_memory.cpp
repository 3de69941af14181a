#include "postmortem/image/debugger_memory.h"

#include "postmortem/image/elf_symbols.h"
#include "postmortem/image/link_map.h"
#include "postmortem/image/object_bytes.h"
#include "postmortem/image/thread_list.h"

#include <elf.h>
#include <iterator>

namespace incident::postmortem {

namespace {

class MemoryBuilder {
public:
    MemoryBuilder(const CrashImage &image, const LoadedModules &modules, std::vector<std::string> &notes)
        : image_(image), modules_(modules), notes_(notes) {}

    DebuggerMemory build() {
        add_heads();
        list_modules();
        list_threads();
        return std::move(memory_);
    }

private:
    void add_heads();
    void list_modules();
    std::vector<LinkMapEntry> link_map_entries(const LoadedElf &program);
    void list_threads();
    void note(std::string text) { notes_.push_back(std::move(text)); }

    const CrashImage &image_;
    const LoadedModules &modules_;
    std::vector<std::string> &notes_;
    DebuggerMemory memory_;
};

std::vector<LinkMapEntry> MemoryBuilder::link_map_entries(const LoadedElf &program) {
    const ElfSegment *own = program.layout.first(PT_DYNAMIC);
    std::vector<LinkMapEntry> entries{{"", program.bias, own ? own->address + program.bias : UserAddress()}};
    // Not without its pages: a debugger would look for a file of that name.
    if (const auto &vdso = modules_.vdso())
        if (const ElfSegment *dynamic = vdso->layout.first(PT_DYNAMIC))
            entries.push_back({image_.isa == Isa::i386 ? "linux-gate.so.1" : "linux-vdso.so.1", vdso->bias,
                               dynamic->address + vdso->bias});
    std::size_t left_out = 0;
    for (std::size_t i = 0; i < image_.modules.size(); ++i) {
        const auto &elf = modules_.all()[i];
        const ElfSegment *dynamic = elf && elf->layout.relocatable ? elf->layout.first(PT_DYNAMIC) : nullptr;
        if (!dynamic || i == modules_.executable())
            continue;
        if (entries.size() >= link_map_entries_max) {
            ++left_out;
            continue;
        }
        // ld.so goes by the name the program has for it
        const ImageModule &module = image_.modules[i];
        const bool interpreter = module.start == modules_.loader_address() && !modules_.interpreter().empty();
        entries.push_back(
            {interpreter ? modules_.interpreter() : module.path, elf->bias, dynamic->address + elf->bias});
    }
    if (left_out)
        note(std::to_string(left_out) + " shared libraries are not listed: there are more than " +
             std::to_string(link_map_entries_max));
    return entries;
}

// Debuggers find the loaded files through the program's DT_DEBUG; in one that has none but is ld.so or has
// dlopen(3) built in, through its _r_debug.
void MemoryBuilder::list_modules() {
    const LoadedElf *program = modules_.executable_elf();
    if (!program)
        return note("shared libraries are not listed: the program's ELF headers are not known");
    std::string dynamic;
    UserAddress dynamic_address;
    if (const ElfSegment *segment = program->layout.first(PT_DYNAMIC)) {
        dynamic_address = segment->address + program->bias;
        if (program->file) {
            dynamic = relocated_dynamic(segment_bytes(program->file, *segment, dynamic_max), program->bias, image_.isa);
        } else if (segment->memory_size <= dynamic_max) {
            dynamic.resize(segment->memory_size);
            dynamic.resize(image_.memory.read(dynamic_address.value, dynamic));
        }
    }
    const auto pointer = debug_entry(dynamic, image_.isa);
    std::optional<UserAddress> own;
    if (!pointer && program->file)
        if (const auto symbols = find_symbols(program->file, {"_r_debug"}); !symbols.empty())
            own = symbols.begin()->second + program->bias;
    if (!pointer && !own) {
        if (dynamic_address.value)
            note("shared libraries are not listed: the program has no DT_DEBUG that can be read");
        return; // a static program, stripped: nobody looks
    }
    const std::vector<LinkMapEntry> entries = link_map_entries(*program);
    std::vector<AddressRange> taken;
    taken.reserve(image_.modules.size());
    for (const ImageModule &module : image_.modules)
        taken.push_back({module.start, module.end});
    const auto at =
        unused_address(image_.maps, image_.memory, std::move(taken), link_map_size(entries, image_.isa), image_.isa);
    if (!at)
        return note("shared libraries are not listed: no room in the address space");
    const LinkMap map = make_link_map(entries, *at, modules_.loader_address(), image_.isa);
    memory_.over.insert(memory_.over.end(), map.pieces.begin(), map.pieces.end());
    if (pointer)
        memory_.over.push_back({dynamic_address + *pointer, word_of(map.debug_address.value, image_.isa)});
    else
        memory_.over.push_back({*own, map.debug});
    memory_.under.push_back({dynamic_address, std::move(dynamic)});
}

void MemoryBuilder::list_threads() {
    if (image_.isa == Isa::i386) {
        if (image_.threads.size() > 1)
            note("glibc's list of threads is not made for a 32-bit process: debuggers show threads by their ids");
        return;
    }
    auto list = make_thread_list(image_, modules_);
    if (!list)
        return;
    memory_.under.insert(memory_.under.end(), std::make_move_iterator(list->pieces.begin()),
                         std::make_move_iterator(list->pieces.end()));
    if (list->made_up)
        note("made up: glibc's own record (struct pthread) of " + std::to_string(list->made_up) +
             " threads, all zeros but for the thread's id, its address and its place in the list");
}

// ELF headers and build-ids: never written to, so a file that is the one that was mapped has what memory had.
void MemoryBuilder::add_heads() {
    for (std::size_t i = 0; i < image_.modules.size(); ++i) {
        const auto &elf = modules_.all()[i];
        if (!elf || !elf->file || !elf->verified)
            continue;
        if (const ElfSegment *load = elf->layout.load_of_offset(FileOffset()))
            memory_.under.push_back({load->address + elf->bias, elf_head(elf->file, elf->layout)});
        // where they do not follow the ELF header (patchelf moves them)
        if (const auto address = elf->layout.headers_address()) {
            std::string headers(elf->layout.headers_size(), '\0');
            if (elf->file(elf->layout.headers_offset.value, headers))
                memory_.under.push_back({*address + elf->bias, std::move(headers)});
        }
    }
}

} // namespace

DebuggerMemory make_debugger_memory(const CrashImage &image, const LoadedModules &modules,
                                    std::vector<std::string> &notes) {
    return MemoryBuilder(image, modules, notes).build();
}

} // namespace incident::postmortem
