#include "postmortem/image/mini_core.h"

#include "capture/os/auxv.h"
#include "postmortem/image/core_file.h"
#include "postmortem/image/core_memory.h"
#include "postmortem/image/core_notes.h"
#include "postmortem/image/debugger_memory.h"
#include "postmortem/image/loaded_modules.h"
#include "postmortem/image/object_bytes.h"

#include <algorithm>
#include <elf.h>
#include <set>

namespace incident::postmortem {

namespace {

const std::string too_large =
    " are left out: the file would be larger than " + std::to_string(mini_core_max >> 20) + " MiB";

using Piece = std::pair<const std::uint64_t, std::string>; // of ImageMemory

// The piece of memory that holds address; null: not known.
const Piece *piece_at(const ImageMemory &memory, std::uint64_t address) {
    auto it = memory.pieces().upper_bound(address);
    if (it == memory.pieces().begin())
        return nullptr;
    --it;
    return address - it->first < it->second.size() ? &*it : nullptr;
}

std::uint64_t cost_of(const std::vector<MadeMemory> &pieces) {
    std::uint64_t cost = 0;
    for (const MadeMemory &piece : pieces)
        cost += CoreMemory::cost(piece.bytes.size());
    return cost;
}

class CoreBuilder {
public:
    CoreBuilder(const CrashImage &image, const std::vector<ModuleFile> &files, std::vector<std::string> &notes)
        : image_(image), notes_(notes), modules_(image, files, notes) {}

    Result<std::string> build();

private:
    CoreNotes core_notes();
    std::string auxv();
    std::vector<CoreFileMapping> file_mappings();

    void add_captured(CoreMemory &memory);
    // False, and counted: an address that the core's format cannot hold.
    bool in_reach(std::uint64_t address, std::uint64_t length) {
        const bool in = address <= word_mask(image_.isa) && length <= word_mask(image_.isa) - address;
        out_of_reach_ += !in;
        return in;
    }

    void note(std::string text) { notes_.push_back(std::move(text)); }

    const CrashImage &image_;
    std::vector<std::string> &notes_;
    LoadedModules modules_;
    std::size_t out_of_reach_ = 0;
};

// The auxiliary vector. If none was captured, it is made: debuggers find the program and its interpreter by it.
std::string CoreBuilder::auxv() {
    if (!image_.auxv.empty())
        return image_.auxv.substr(0, image_.auxv.size() & ~(2 * word_bytes(image_.isa) - 1));
    std::string words;
    auto add = [&](std::uint64_t type, std::uint64_t value) {
        (words += word_of(type, image_.isa)) += word_of(value, image_.isa);
    };
    const LoadedElf *program = modules_.executable_elf();
    const auto headers = program ? program->layout.headers_address() : std::nullopt;
    if (!headers)
        return "";
    note("no auxiliary vector was captured: the one here was made from the mappings");
    add(AT_PAGESZ, page_size);
    add(AT_PHDR, (*headers + program->bias).value);
    add(AT_PHENT, program->layout.header_size);
    add(AT_PHNUM, program->layout.headers);
    add(AT_BASE, modules_.loader_address().value);
    add(AT_ENTRY, (program->layout.entry + program->bias).value);
    add(AT_NULL, 0);
    return words;
}

// A debugger takes from the file what the core does not have of a mapping listed here.  So what was
// written to or relocated is not listed: the file's bytes would pass for the process's (gdb 13 would
// print a variable's initial value).  The kernel lists it, for it always dumps such pages.
std::vector<CoreFileMapping> CoreBuilder::file_mappings() {
    std::vector<CoreFileMapping> rows;
    std::uint64_t size = 0, left_out = 0, changed = 0;
    for (const capture::Mapping &mapping : image_.maps.all()) {
        if (!mapping.is_file() || mapping.end.value > word_mask(image_.isa))
            continue;
        if (!modules_.as_in_file(mapping)) {
            ++changed;
            continue;
        }
        CoreFileMapping row{mapping.start, mapping.end, mapping.offset,
                            mapping.path + (mapping.deleted ? " (deleted)" : "")};
        size += 3 * sizeof(std::uint64_t) + row.path.size() + 1;
        if (size > mini_core_files_note_max)
            ++left_out;
        else
            rows.push_back(std::move(row));
    }
    if (changed)
        note(std::to_string(changed) + " mappings of files are not listed: what the process had there is not what the "
                                       "file has (they could be written to, or the file is another now)");
    if (left_out)
        note(std::to_string(left_out) + " mappings of files are not listed: their list would be larger than " +
             std::to_string(mini_core_files_note_max >> 20) + " MiB");
    return rows;
}

CoreNotes CoreBuilder::core_notes() {
    CoreNotes notes(image_.isa);
    bool first = true;
    std::size_t unknown = 0;
    for (const ImageThread &thread : image_.threads) {
        if (!thread.registers) {
            ++unknown;
            continue;
        }
        notes.add_prstatus(image_, thread);
        if (!std::exchange(first, false))
            continue;
        if (!thread.is_triggers && image_.threads.front().is_triggers)
            note("the thread it happened in is left out: its registers are not known");
        notes.add_prpsinfo(image_);
        if (image_.has_siginfo)
            notes.add_siginfo(image_);
        if (const std::string words = auxv(); !words.empty())
            notes.add(NT_AUXV, words);
        if (const auto files = file_mappings(); !files.empty())
            notes.add_files(files);
    }
    if (unknown)
        note(std::to_string(unknown) + " threads are left out: their registers are not known");
    return notes;
}

// The first thread's stack, then all that is small, then the other stacks as long as there is room.
void CoreBuilder::add_captured(CoreMemory &memory) {
    std::set<const Piece *> stacks;
    std::vector<const Piece *> order;
    for (const ImageThread &thread : image_.threads)
        if (const Piece *piece = thread.registers ? piece_at(image_.memory, thread.registers->rsp) : nullptr;
            piece && stacks.insert(piece).second)
            order.push_back(piece);
    std::vector<const Piece *> others;
    for (const Piece &piece : image_.memory.pieces())
        if (!stacks.contains(&piece))
            others.push_back(&piece);
    order.insert(order.begin() + (order.empty() ? 0 : 1), others.begin(), others.end());
    std::size_t left_out_stacks = 0, left_out = 0;
    std::erase_if(order, [&](const Piece *piece) { return !in_reach(piece->first, piece->second.size()); });
    for (const Piece *piece : order)
        if (!memory.add(piece->first, piece->second))
            ++(stacks.contains(piece) ? left_out_stacks : left_out);
    if (left_out_stacks)
        note(std::to_string(left_out_stacks) + " of " + std::to_string(stacks.size()) + " stacks" + too_large);
    if (left_out)
        note(std::to_string(left_out) + " pieces of memory" + too_large);
}

Result<std::string> CoreBuilder::build() {
    const CoreNotes notes = core_notes();
    const DebuggerMemory made = make_debugger_memory(image_, modules_, notes_);
    const std::uint64_t fixed = core_file_overhead + notes.bytes().size() + cost_of(made.over);
    if (fixed > mini_core_max)
        return fail("more threads than a file of " + std::to_string(mini_core_max >> 20) + " MiB can hold");
    const std::uint64_t room = mini_core_max - fixed, for_gaps = std::min(cost_of(made.under), room / 2);
    CoreMemory memory;
    for (const ImageModule &module : image_.modules)
        memory.begins(module.start.value);
    if (modules_.vdso())
        memory.begins(*image_.aux(AT_SYSINFO_EHDR));
    memory.allow(cost_of(made.over));
    for (const MadeMemory &piece : made.over)
        if (in_reach(piece.address.value, piece.bytes.size()))
            memory.add(piece.address.value, piece.bytes);
    memory.allow(room - for_gaps);
    add_captured(memory);
    memory.allow(for_gaps);
    std::size_t left_out = 0;
    for (const MadeMemory &piece : made.under)
        left_out += in_reach(piece.address.value, piece.bytes.size()) && !memory.add(piece.address.value, piece.bytes);
    if (left_out)
        note(std::to_string(left_out) + " pieces of ELF headers and glibc's list of threads" + too_large);
    if (out_of_reach_)
        note(std::to_string(out_of_reach_) +
             " pieces of memory are left out: a 32-bit core has no addresses beyond 4 GiB");
    return write_core_file(notes.bytes(), memory.segments(image_.maps), image_.isa);
}

} // namespace

Result<MiniCore> make_mini_core(const CrashImage &image, const std::vector<ModuleFile> &files) {
    const auto first =
        std::ranges::find_if(image.threads, [](const ImageThread &thread) { return thread.registers.has_value(); });
    if (first == image.threads.end())
        return fail("no thread's registers are known");
    if (image.isa == Isa::x86_64 && capture::is_narrow_auxv(image.auxv))
        return fail("a process of the x32 ABI: cores are written of x86-64 and of i386 ones");
    if (image.isa == Isa::x86_64 && first->registers->cs == capture::code_segment_32bit)
        return fail("a 64-bit process in 32-bit code: cores are written of those in code of their own width");
    MiniCore core;
    auto bytes = CoreBuilder(image, files, core.notes).build();
    if (!bytes)
        return fail(std::move(bytes.error()));
    core.bytes = std::move(*bytes);
    return core;
}

} // namespace incident::postmortem
