// The auxiliary vector (getauxval(3)), as /proc/PID/auxv, mm->saved_auxv and NT_AUXV hold it.
#pragma once

#include "bpf/event.h"
#include "capture/os/isa.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace incident::capture {

// True if its words are 32 bits wide, as in an i386 process and in one of the x32 ABI: the kernel saves them as the
// program got them (elf_addr_t, fs/binfmt_elf.c).
bool is_narrow_auxv(std::string_view bytes);
// The value of an entry (AT_PHDR …); not set if it has none before its end.
std::optional<std::uint64_t> auxv_value(std::string_view bytes, std::uint64_t type);

// The one that the kernel side has copied; all zeros if it has not.
std::string_view saved_auxv(const bpf::death_event &event);
// What a program is of: "x86-64", "i386" or "x32" (64-bit code with 32-bit addresses).  By its auxiliary vector and by
// whether threads of it were in 32-bit and in 64-bit code; where the vector is not known, by the code alone.
std::string_view abi_name(std::string_view auxv, bool in_32bit_code, bool in_64bit_code);

// The instruction set that a thread's registers are of.
Isa isa_of(const bpf::user_registers &registers);

} // namespace incident::capture
