// The instruction sets of the processes that an x86-64 kernel runs.
#pragma once

#include <cstdint>

namespace incident::capture {

enum class Isa : std::uint8_t { x86_64, i386 };

// Of an address, a register and a place on the stack.
constexpr std::uint64_t word_bytes(Isa isa) {
    return isa == Isa::i386 ? 4 : 8;
}
constexpr std::uint64_t word_mask(Isa isa) {
    return isa == Isa::i386 ? UINT32_MAX : UINT64_MAX;
}

// What cs holds while a thread executes code of either (__USER32_CS, __USER_CS: arch/x86/include/asm/segment.h).
inline constexpr std::uint64_t code_segment_32bit = 0x23, code_segment_64bit = 0x33;

} // namespace incident::capture
