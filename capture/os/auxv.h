// The auxiliary vector (getauxval(3)), as /proc/PID/auxv, mm->saved_auxv and NT_AUXV hold it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace incident::capture {

// True if its words are 32 bits wide, as in an i386 process and in one of the x32 ABI: the kernel saves them as the
// program got them (elf_addr_t, fs/binfmt_elf.c).
bool is_narrow_auxv(std::string_view bytes);
// The value of an entry (AT_PHDR …); not set if it has none before its end.
std::optional<std::uint64_t> auxv_value(std::string_view bytes, std::uint64_t type);

} // namespace incident::capture
