// Names a frame, an address, a size and a mapping in sentences.
#pragma once

#include "capture/os/maps.h"
#include "postmortem/unwind/analysis.h"

#include <sys/user.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace incident::postmortem {

// "read_line+0x1f (reader.c:41)", "libz.so.1+0x4a20", "0x7f…".
std::string place_text(const Frame &frame);
// The function's name without what a compiler adds for a clone of it: ".constprop.0", ".isra.0", ".part.0", ".cold".
std::string_view source_name(const Frame &frame);
// Only the function, or the module and offset if its name is unknown.
std::string function_text(const Frame &frame);
std::string hex(std::uint64_t value);
// "8 MiB", "132 KiB", "17 bytes".
std::string bytes_text(std::uint64_t bytes);
// "[stack] (rw-)", "/lib/x.so (r--)", "anonymous memory (rw-)".
std::string mapping_text(const capture::Mapping &mapping);
// The general register of that name ("rax", "r12", "eax", "cl", …) as the operand sees it; not set if there is no
// such name.
std::optional<std::uint64_t> register_value(const user_regs_struct &registers, std::string_view name);

} // namespace incident::postmortem
