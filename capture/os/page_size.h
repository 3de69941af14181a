// The unit in which the kernel counts memory and maps files.
#pragma once

#include <cstdint>

namespace incident::capture {

inline constexpr std::uint64_t page_size = 4096; // x86-64

} // namespace incident::capture
