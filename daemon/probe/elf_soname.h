// The name that a shared library gives itself (DT_SONAME).
#pragma once

#include <string>
#include <vector>

namespace incident::daemon {

inline constexpr std::size_t soname_max = 255; // bytes; a file name has no more

// DT_SONAME; "" if the file is no x86-64 ELF file or has none.  The file is hostile, so every offset is checked and at
// most some tens of KiB are read.  fd: a regular file open for reading, not owned.
std::string elf_soname(int fd);

// The sonames in the cache of the dynamic linker (ldconfig(8)), in its order; empty if it cannot be read.
std::vector<std::string> cached_sonames(const std::string &cache = "/etc/ld.so.cache");

} // namespace incident::daemon
