// The machine instruction of x86-64 or i386 that begins some bytes, as Zydis decodes it.
#pragma once

#include <Zydis/Decoder.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace incident::capture {

struct X86Instruction : ZydisDecodedInstruction {
    std::array<ZydisDecodedOperand, ZYDIS_MAX_OPERAND_COUNT> operands;

    std::span<const ZydisDecodedOperand> all_operands() const { return std::span(operands).first(operand_count); }
    // Of a jump or call to a fixed place: its distance from the next instruction.
    std::optional<std::int64_t> distance() const;
    // Another instruction than the next one may follow, or the kernel acts meanwhile.
    bool changes_course() const;
    // Writes to one of these 64-bit registers or to a part of it.
    bool writes_any_of(std::span<const ZydisRegister> registers) const;
};

enum class X86Mode { bits64, bits32 };

// nullopt: not an instruction, or it goes on beyond the bytes.
std::optional<X86Instruction> decode_x86(std::span<const std::byte> code, X86Mode mode = X86Mode::bits64);
template <typename Bytes> std::optional<X86Instruction> decode_x86(const Bytes &code, X86Mode mode = X86Mode::bits64) {
    return decode_x86(std::as_bytes(std::span(code)), mode);
}

} // namespace incident::capture
