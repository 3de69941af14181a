// Reads what a core needs from the mapped ELF files: where they were loaded, and what their program headers point at.
// If a file is gone, its bytes may come from memory. Everything may be hostile.
#pragma once

#include "capture/os/address.h"
#include "capture/os/elf_headers.h"
#include "capture/os/isa.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace incident::postmortem {

using capture::FileOffset;
using capture::Isa;
using capture::LinkAddress;
using capture::LoadBias;
using capture::UserAddress;

struct ElfSegment {
    std::uint32_t type = 0, flags = 0; // PT_*, PF_*
    FileOffset offset;
    std::uint64_t file_size = 0;
    LinkAddress address;
    std::uint64_t memory_size = 0;

    // True if the range in the file, [offset, offset + file_size), and the range in memory do not overflow.
    bool sane() const;
};

struct ElfLayout {
    Isa isa = Isa::x86_64;
    bool relocatable = false; // ET_DYN: shared object or position-independent executable; false: ET_EXEC
    LinkAddress entry;
    FileOffset headers_offset; // of the program headers
    std::uint16_t headers = 0;
    std::uint16_t header_size = 0;    // of each
    std::vector<ElfSegment> segments; // all program headers that are sane()

    std::uint64_t headers_size() const { return std::uint64_t{headers} * header_size; }

    const ElfSegment *first(std::uint32_t type) const;
    // The PT_LOAD that maps a byte of the file.
    const ElfSegment *load_of_offset(FileOffset offset) const;
    // The bias, if the file's byte first_offset (the start of a page) is mapped at `start`. Not set if no PT_LOAD maps
    // that byte, or if an ET_EXEC is not at its own address.
    std::optional<LoadBias> bias(UserAddress start, FileOffset first_offset) const;
    // Not set if the program headers are not loaded.
    std::optional<LinkAddress> headers_address() const;
    // True if it lies in a writable PT_LOAD.
    bool writable(LinkAddress address) const;
};

using capture::ElfReader;
using capture::reader_of;

// Returns an Error if it is not an x86-64 or i386 ELF file that can be executed or loaded.
Result<ElfLayout> read_elf_layout(const ElfReader &read);

// A segment's bytes in the file; "" if they cannot be read or are more than `most`.
std::string segment_bytes(const ElfReader &read, const ElfSegment &segment, std::uint64_t most);

// The beginning of the file, with the ELF header, the program headers and the build-id notes, as far as the first
// PT_LOAD maps them. A debugger needs it to see which file it is. At least a page, at most elf_head_max; "" if it
// cannot be read.
std::string elf_head(const ElfReader &read, const ElfLayout &layout);

inline constexpr std::uint64_t page_size = 4096;
inline constexpr std::size_t elf_headers_max = 256;      // program headers; ordinary files have some 13
inline constexpr std::uint64_t elf_head_max = 16u << 10; // bytes
inline constexpr std::uint64_t dynamic_max = 64u << 10;  // bytes of a .dynamic
inline constexpr std::uint64_t interpreter_max = 4096;   // PATH_MAX

} // namespace incident::postmortem
