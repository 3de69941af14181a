#include "postmortem/core/core_returns.h"

#include "postmortem/image/elf_layout.h"

#include <algorithm>
#include <elf.h>
#include <unistd.h>

namespace incident::postmortem {

namespace {

constexpr std::size_t returns_max = 1u << 18;
constexpr std::size_t segments_max = 1u << 20; // what a process may have of mappings is far below

struct Segment {
    std::uint64_t address, size, offset;
};

// The memory in the file, by address.
Result<std::vector<Segment>> memory_of(const ElfReader &read) {
    const auto header = capture::read_elf_header(read);
    if (!header || header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_type != ET_CORE)
        return fail("no core of a 64-bit process");
    std::size_t count = header->e_phnum;
    if (count == PN_XNUM) { // elf(5): the number stands in the first section header
        Elf64_Shdr section;
        if (!capture::read_object(read, header->e_shoff, section))
            return fail("a core whose number of segments is not in it");
        count = section.sh_info;
    }
    if (count > segments_max)
        return fail("a core of more segments than a process can have");
    const auto segments = capture::read_program_headers(read, *header, count);
    if (segments.size() < count)
        return fail("a core that ends within its program headers");
    std::vector<Segment> memory;
    for (const Elf64_Phdr &segment : segments) {
        std::uint64_t end;
        if (segment.p_type == PT_LOAD && segment.p_filesz &&
            !__builtin_add_overflow(segment.p_vaddr, segment.p_filesz, &end) &&
            !__builtin_add_overflow(segment.p_offset, segment.p_filesz, &end) && end <= INT64_MAX)
            memory.push_back({segment.p_vaddr, segment.p_filesz, segment.p_offset});
    }
    std::ranges::sort(memory, {}, &Segment::address);
    return memory;
}

} // namespace

std::vector<ReplacedReturn> replaced_returns(JsonView threads) {
    std::vector<ReplacedReturn> returns;
    threads.each([&](JsonView thread) {
        thread["stack"]["return_probes"].each([&](JsonView probe) {
            const auto address = probe["address"].natural(), trampoline = probe["trampoline"].natural(),
                       back = probe["return_address"].natural();
            // The trampoline begins a page; the System V ABI keeps return addresses on multiples of 8.
            if (address && trampoline && back && *address % sizeof(std::uint64_t) == 0 && *trampoline &&
                *trampoline % page_size == 0 && returns.size() < returns_max)
                returns.push_back({*address, *trampoline, *back});
        });
    });
    return returns;
}

Result<std::size_t> put_returns_right(int core, const std::vector<ReplacedReturn> &returns) {
    if (returns.empty())
        return 0;
    const ElfReader read = reader_of(core);
    const auto memory = memory_of(read);
    if (!memory)
        return fail(memory.error());
    std::size_t put = 0;
    for (const ReplacedReturn &replaced : returns) {
        auto segment = std::ranges::upper_bound(*memory, replaced.address, {}, &Segment::address);
        if (segment == memory->begin())
            continue;
        --segment;
        const std::uint64_t at = replaced.address - segment->address;
        std::uint64_t word = 0;
        if (segment->size < sizeof word || at > segment->size - sizeof word ||
            !capture::read_object(read, segment->offset + at, word) || word != replaced.trampoline)
            continue;
        word = replaced.return_address;
        if (::pwrite(core, &word, sizeof word, static_cast<off_t>(segment->offset + at)) != sizeof word)
            return fail(Error::system("cannot write to the copy of the core"));
        ++put;
    }
    return put;
}

} // namespace incident::postmortem
