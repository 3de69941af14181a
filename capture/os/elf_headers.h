// The headers of an ELF file.  By hand instead of with libelf: the bytes come from files and memory that a hostile
// process made, sometimes only the first of them, and three structures are all it takes.
#pragma once

#include "capture/os/result.h"

#include <elf.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace incident::capture {

// Fills `into` from offset on, wholly, or says false.
using ElfReader = std::function<bool(std::uint64_t offset, std::span<char> into)>;
ElfReader reader_of(int fd);
// The first bytes of a file, which must stay.
ElfReader reader_of_head(std::span<const std::uint8_t> bytes);

template <typename T> bool read_object(const ElfReader &read, std::uint64_t offset, T &object) {
    return read(offset, {reinterpret_cast<char *>(&object), sizeof object});
}

// A 32-bit file's headers in 64-bit structures; e_ident tells.  Errors: no little-endian ELF file, or one whose
// program headers have another size than those of its class.
Result<Elf64_Ehdr> read_elf_header(const ElfReader &read);
// The first `count` program headers; fewer where they cannot be read.
std::vector<Elf64_Phdr> read_program_headers(const ElfReader &read, const Elf64_Ehdr &header, std::size_t count);

} // namespace incident::capture
