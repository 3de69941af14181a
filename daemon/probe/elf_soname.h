// What a shared library calls itself.
#pragma once

#include <string>
#include <vector>

namespace incident::daemon {

inline constexpr std::size_t soname_max = 255; // bytes; a file name has no more

// DT_SONAME; "" where the file is no x86-64 ELF file or has none.  The file is hostile: every offset is checked,
// no more than some tens of KiB are read.  fd: a regular file open for reading, not owned.
std::string elf_soname(int fd);

// The sonames that the dynamic linker's cache knows (ldconfig(8)), in its order; empty where it cannot be read.
std::vector<std::string> cached_sonames(const std::string &cache = "/etc/ld.so.cache");

} // namespace incident::daemon
