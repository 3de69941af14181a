// Finds the addresses of a few symbols in an ELF file's tables. The input may be hostile, as in elf_layout.h.
#pragma once

#include "postmortem/image/elf_layout.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

// Looks into .symtab and .dynsym. A name is missing if it is not defined, or if its table cannot be read or is larger
// than symbol_table_max.
std::map<std::string, LinkAddress, std::less<>> find_symbols(const ElfReader &read,
                                                             const std::vector<std::string_view> &names);

inline constexpr std::uint64_t symbol_table_max = 64u << 20; // bytes, of the symbols and of their names
inline constexpr std::size_t elf_sections_max = 1024;        // ordinary programs have some 40

} // namespace incident::postmortem
