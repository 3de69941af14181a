// Finds out what must be known of a program written in Go before its functions are probed.
#pragma once

#include "daemon/probe/elf_image.h"

#include <string>
#include <string_view>

namespace incident::daemon {

bool is_go(const ElfImage &image);

// The toolchain's version as the linker left it ("go1.22.3"); "": it cannot be told.
std::string go_version(const ElfImage &image);

// Checks that the registers tell the goroutine in this function: since 1.17 Go keeps it in R14, but not in assembly
// code of the former calling convention.  Error: why they do not.
Status check_goroutine(const ElfImage &image, std::string_view symbol);

} // namespace incident::daemon
