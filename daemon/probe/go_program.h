// What has to be known of a program written in Go before its functions are probed.
#pragma once

#include "daemon/probe/elf_image.h"

#include <string>
#include <string_view>

namespace incident::daemon {

bool is_go(const ElfImage &image);

// The toolchain's version as the linker left it ("go1.22.3"); "": it cannot be told.
std::string go_version(const ElfImage &image);

// Whether a goroutine can be told from its registers in this function: Go keeps it in R14 since
// 1.17, but not in assembly of the former calling convention.  Error: why not.
Status check_goroutine(const ElfImage &image, std::string_view symbol);

} // namespace incident::daemon
