// Reads the headers of an ELF file.  It does not use libelf, because the bytes come from files and memory of a hostile
// process, sometimes only the first of them are there, and only three structures are needed.
#pragma once

#include "capture/os/result.h"

#include <elf.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace incident::capture {

// Fills `into` completely with the bytes from offset on, or returns false.
using ElfReader = std::function<bool(std::uint64_t offset, std::span<char> into)>;
ElfReader reader_of(int fd);
// Reads from the first bytes of a file, which must stay valid.
ElfReader reader_of_head(std::span<const std::uint8_t> bytes);

template <typename T> bool read_object(const ElfReader &read, std::uint64_t offset, T &object) {
    return read(offset, {reinterpret_cast<char *>(&object), sizeof object});
}

// The headers of a 32-bit file are returned in 64-bit structures too; e_ident shows the class.  Errors: it is no
// little-endian ELF file, or its program headers have another size than those of its class.
Result<Elf64_Ehdr> read_elf_header(const ElfReader &read);
// The first `count` program headers, or fewer if they cannot be read.
std::vector<Elf64_Phdr> read_program_headers(const ElfReader &read, const Elf64_Ehdr &header, std::size_t count);

} // namespace incident::capture
