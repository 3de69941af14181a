#include "capture/decode/x86_instruction.h"

namespace incident::capture {

std::optional<std::int64_t> X86Instruction::distance() const {
    if (operand_count == 0 || operands[0].type != ZYDIS_OPERAND_TYPE_IMMEDIATE || !operands[0].imm.is_relative)
        return std::nullopt;
    return operands[0].imm.value.s;
}

bool X86Instruction::changes_course() const {
    constexpr ZydisInstructionCategory categories[] = {ZYDIS_CATEGORY_CALL,    ZYDIS_CATEGORY_RET,
                                                       ZYDIS_CATEGORY_COND_BR, ZYDIS_CATEGORY_UNCOND_BR,
                                                       ZYDIS_CATEGORY_SYSCALL, ZYDIS_CATEGORY_INTERRUPT};
    return std::ranges::find(categories, meta.category) != std::end(categories);
}

bool X86Instruction::writes_any_of(std::span<const ZydisRegister> registers) const {
    return std::ranges::any_of(all_operands(), [&](const ZydisDecodedOperand &operand) {
        return operand.type == ZYDIS_OPERAND_TYPE_REGISTER && (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) &&
               std::ranges::find(registers, ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64,
                                                                             operand.reg.value)) != registers.end();
    });
}

std::optional<X86Instruction> decode_x86(std::span<const std::byte> code, X86Mode mode) {
    const auto decoder_of = [](ZydisMachineMode machine, ZydisStackWidth width) {
        ZydisDecoder made;
        ZydisDecoderInit(&made, machine, width);
        return made;
    };
    static const ZydisDecoder wide = decoder_of(ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    static const ZydisDecoder narrow = decoder_of(ZYDIS_MACHINE_MODE_LEGACY_32, ZYDIS_STACK_WIDTH_32);
    const ZydisDecoder &decoder = mode == X86Mode::bits32 ? narrow : wide;
    X86Instruction decoded;
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&decoder, code.data(), code.size(), &decoded, decoded.operands.data())))
        return std::nullopt;
    return decoded;
}

} // namespace incident::capture
