// A few symbols' addresses out of an ELF file's tables.  Hostile input, as elf_layout.h's.
#pragma once

#include "postmortem/image/elf_layout.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

// Addresses before the load bias is added; names that are not defined, or whose tables are not to be had
// or larger than symbol_table_max, are not in it.  Looks into .symtab and .dynsym.
std::map<std::string, std::uint64_t, std::less<>> find_symbols(const ElfReader &read,
                                                               const std::vector<std::string_view> &names);

inline constexpr std::uint64_t symbol_table_max = 64u << 20; // bytes, of the symbols and of their names
inline constexpr std::size_t elf_sections_max = 1024;        // ordinary programs have some 40

} // namespace incident::postmortem
