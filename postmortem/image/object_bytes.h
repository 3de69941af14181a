// Converts an object to the bytes that it has in an ELF file or in a process's memory.
#pragma once

#include <string>

namespace incident::postmortem {

template <typename T> std::string bytes_of(const T &object) {
    return {reinterpret_cast<const char *>(&object), sizeof object};
}

} // namespace incident::postmortem
