// The image a bundle would give of a process, made from a full core of it, so that what is
// written from the image can be compared with the core.
#pragma once

#include "postmortem/image/crash_image.h"

#include <string>
#include <string_view>

namespace incident::postmortem::test {

inline constexpr std::uint64_t captured_stack = 32u << 10; // bytes of each thread's

// core: as gdb's gcore writes it; maps: /proc/PID/maps at that time.  Kept of its memory: of each
// stack what is below and captured_stack above the stack pointer, the bytes around the instruction
// pointer, and the vdso's pages.
CrashImage image_of_core(std::string_view core, std::string_view maps);
// The bytes of a full core's memory, up to the first that it does not have.
std::string core_memory(std::string_view core, std::uint64_t address, std::size_t length);

} // namespace incident::postmortem::test
