// Converts an object to the bytes that it has in an ELF file or in a process's memory.
#pragma once

#include "capture/os/isa.h"

#include <string>

namespace incident::postmortem {

template <typename T> std::string bytes_of(const T &object) {
    return {reinterpret_cast<const char *>(&object), sizeof object};
}

// An address or number as wide as the process has them.
inline std::string word_of(std::uint64_t value, capture::Isa isa) {
    return bytes_of(value).substr(0, capture::word_bytes(isa)); // the lower bytes come first
}

} // namespace incident::postmortem
