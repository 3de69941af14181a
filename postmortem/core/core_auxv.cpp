#include "postmortem/core/core_auxv.h"

#include "capture/os/elf_headers.h"

#include <algorithm>
#include <elf.h>
#include <vector>

namespace incident::postmortem {

namespace {

// The notes hold the registers of each thread and the names of all mapped files (4 MiB at most).
constexpr std::uint64_t notes_end_max = 64u << 20;
constexpr std::size_t elf_header_max = sizeof(Elf64_Ehdr);
constexpr std::uint64_t note_align = 4;

// Where PT_NOTE stands. false: more of the file is needed.
bool find_notes(std::span<const std::uint8_t> head, std::vector<Elf64_Phdr> &notes) {
    notes.clear();
    if (head.size() < elf_header_max)
        return false;
    const capture::ElfReader read = capture::reader_of_head(head);
    const auto header = capture::read_elf_header(read);
    if (!header || header->e_type != ET_CORE)
        return true; // no core: there will be no notes
    // The kernel writes the notes' header as the first one; e_phnum may be PN_XNUM.
    const auto first = capture::read_program_headers(read, *header, std::min<std::size_t>(header->e_phnum, 1));
    for (const Elf64_Phdr &segment : first)
        if (segment.p_type == PT_NOTE)
            notes.push_back(segment);
    return !first.empty() || header->e_phoff > notes_end_max;
}

bool is_whole(std::span<const std::uint8_t> head, const Elf64_Phdr &notes) {
    return notes.p_offset <= head.size() && notes.p_filesz <= head.size() - notes.p_offset;
}

std::string auxv_in(std::span<const std::uint8_t> notes) {
    const capture::ElfReader read = capture::reader_of_head(notes);
    for (std::uint64_t at = 0; at < notes.size();) {
        Elf64_Nhdr note; // of a 32-bit core the same
        if (!capture::read_object(read, at, note))
            break;
        const auto padded = [](std::uint64_t size) { return (size + note_align - 1) / note_align * note_align; };
        const std::uint64_t description = at + sizeof note + padded(note.n_namesz);
        if (note.n_type == NT_AUXV && description <= notes.size() && note.n_descsz <= notes.size() - description)
            return {reinterpret_cast<const char *>(notes.data()) + description, note.n_descsz};
        at = description + padded(note.n_descsz);
    }
    return "";
}

} // namespace

std::string auxv_of_head(std::span<const std::uint8_t> head) {
    std::vector<Elf64_Phdr> notes;
    if (!find_notes(head, notes) || notes.empty() || !is_whole(head, notes.front()))
        return "";
    return auxv_in(head.subspan(notes.front().p_offset, notes.front().p_filesz));
}

std::string auxv_of_core(CoreDecoder &core) {
    std::vector<std::uint8_t> head;
    std::vector<Elf64_Phdr> notes;
    while (head.size() < notes_end_max) {
        const auto bytes = core.next();
        if (!bytes || bytes->empty())
            break;
        head.insert(head.end(), bytes->begin(), bytes->end());
        if (find_notes(head, notes) && (notes.empty() || is_whole(head, notes.front())))
            break;
    }
    return auxv_of_head(head);
}

bool vectors_differ(std::string_view one, std::string_view other) {
    const auto stripped = [](std::string_view auxv) { return auxv.substr(0, auxv.find_last_not_of('\0') + 1); };
    return !stripped(one).empty() && !stripped(other).empty() && stripped(one) != stripped(other);
}

} // namespace incident::postmortem
