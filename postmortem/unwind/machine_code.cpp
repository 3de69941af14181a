#include "postmortem/unwind/machine_code.h"

#include "capture/decode/x86_instruction.h"
#include "postmortem/unwind/registers.h"

#include <Zydis/Formatter.h>

#include <algorithm>
#include <array>
#include <utility>

namespace incident::postmortem {

namespace {

constexpr std::size_t longest_call = 8; // bytes: prefix, REX, FF, ModRM, SIB, 32 bits
constexpr std::size_t prologue_instructions_max = 16;

using capture::decode_x86;
using Decoded = capture::X86Instruction;

capture::X86Mode mode_of(Isa isa) {
    return isa == Isa::i386 ? capture::X86Mode::bits32 : capture::X86Mode::bits64;
}

// What the memory holds from there on, as far as it can be read.
std::optional<Decoded> decoded_at(std::uint64_t address, ProcessMemory &memory) {
    char bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];
    return decode_x86(std::span(bytes).first(memory.read(address, bytes)), mode_of(memory.isa()));
}

// The call that these bytes are, all of them.
std::optional<Decoded> call_of(std::span<const char> bytes, Isa isa) {
    const auto decoded = decode_x86(bytes, mode_of(isa));
    return decoded && decoded->length == bytes.size() && decoded->meta.category == ZYDIS_CATEGORY_CALL ? decoded
                                                                                                       : std::nullopt;
}

// The value a register had; only general ones go into an address.
std::optional<std::uint64_t> value_of(ZydisRegister reg, const user_regs_struct &r, std::uint64_t next) {
    if (reg == ZYDIS_REGISTER_RIP)
        return next;
    if (reg == ZYDIS_REGISTER_EIP)
        return next & UINT32_MAX;
    const std::uint64_t width = ZydisRegisterGetWidth(ZYDIS_MACHINE_MODE_LONG_64, reg);
    const std::uint64_t mask = width == 32 ? UINT32_MAX : UINT64_MAX;
    switch (ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, reg)) {
    case ZYDIS_REGISTER_NONE:
        return 0;
    case ZYDIS_REGISTER_RAX:
        return r.rax & mask;
    case ZYDIS_REGISTER_RBX:
        return r.rbx & mask;
    case ZYDIS_REGISTER_RCX:
        return r.rcx & mask;
    case ZYDIS_REGISTER_RDX:
        return r.rdx & mask;
    case ZYDIS_REGISTER_RSI:
        return r.rsi & mask;
    case ZYDIS_REGISTER_RDI:
        return r.rdi & mask;
    case ZYDIS_REGISTER_RBP:
        return r.rbp & mask;
    case ZYDIS_REGISTER_RSP:
        return r.rsp & mask;
    case ZYDIS_REGISTER_R8:
        return r.r8 & mask;
    case ZYDIS_REGISTER_R9:
        return r.r9 & mask;
    case ZYDIS_REGISTER_R10:
        return r.r10 & mask;
    case ZYDIS_REGISTER_R11:
        return r.r11 & mask;
    case ZYDIS_REGISTER_R12:
        return r.r12 & mask;
    case ZYDIS_REGISTER_R13:
        return r.r13 & mask;
    case ZYDIS_REGISTER_R14:
        return r.r14 & mask;
    case ZYDIS_REGISTER_R15:
        return r.r15 & mask;
    default:
        return std::nullopt;
    }
}

// "mov 0x8(%rbx), %eax" → "mov 0x8(%rbx),%eax", as gdb has it.
std::string without_spaces_between(std::string text) {
    for (std::size_t at; (at = text.find(", ")) != std::string::npos;)
        text.erase(at + 1, 1);
    return text;
}

std::string name_of(ZydisRegister reg) {
    const char *name = reg == ZYDIS_REGISTER_NONE ? nullptr : ZydisRegisterGetString(reg);
    return name ? name : "";
}

bool has_segment_base(ZydisRegister segment) {
    return segment == ZYDIS_REGISTER_FS || segment == ZYDIS_REGISTER_GS;
}

ZydisRegister stack_pointer_of(Isa isa) {
    return isa == Isa::i386 ? ZYDIS_REGISTER_ESP : ZYDIS_REGISTER_RSP;
}
ZydisRegister frame_pointer_of(Isa isa) {
    return isa == Isa::i386 ? ZYDIS_REGISTER_EBP : ZYDIS_REGISTER_RBP;
}

// The first operand that accesses memory, written ones before read ones: a fault is about one of them.
const ZydisDecodedOperand *memory_operand(const Decoded &decoded) {
    const ZydisDecodedOperand *chosen = nullptr;
    for (std::size_t i = 0; i < decoded.operand_count; ++i) {
        const ZydisDecodedOperand &operand = decoded.operands[i];
        if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY)
            continue;
        // An explicit operand is preferred to a stack access that the instruction makes implicitly.
        const bool named = operand.visibility == ZYDIS_OPERAND_VISIBILITY_EXPLICIT;
        if (!chosen || (named && chosen->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT))
            chosen = &operand;
    }
    return chosen;
}

std::optional<Instruction::Operand> operand_of(const Decoded &decoded, const user_regs_struct &registers, Isa isa) {
    const ZydisDecodedOperand *found = memory_operand(decoded);
    if (!found)
        return std::nullopt;
    const ZydisDecodedOperandMem &memory = found->mem;
    const auto base = value_of(memory.base, registers, registers.rip + decoded.length);
    const auto index = value_of(memory.index, registers, 0);
    if (!base || !index) // a gather's index is a vector
        return std::nullopt;
    Instruction::Operand operand;
    const bool accessed = memory.type == ZYDIS_MEMOP_TYPE_MEM;
    operand.read = accessed && (found->actions & ZYDIS_OPERAND_ACTION_MASK_READ);
    operand.write = accessed && (found->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE);
    operand.base = name_of(memory.base);
    operand.index = name_of(memory.index);
    operand.segment = has_segment_base(memory.segment) ? name_of(memory.segment) : "";
    operand.scale = memory.index == ZYDIS_REGISTER_NONE ? 0 : memory.scale;
    operand.displacement = memory.disp.has_displacement ? memory.disp.value : 0;
    operand.bytes = accessed ? found->size / 8 : 0;
    operand.address = *base + *index * operand.scale + static_cast<std::uint64_t>(operand.displacement);
    if (decoded.address_width == 32)
        operand.address &= UINT32_MAX;
    // A 32-bit thread's bases are those of its descriptors: 0 where they were not captured.
    if (isa == Isa::i386 && ((memory.segment == ZYDIS_REGISTER_FS && registers.fs_base == 0) ||
                             (memory.segment == ZYDIS_REGISTER_GS && registers.gs_base == 0)))
        return std::nullopt;
    if (memory.segment == ZYDIS_REGISTER_FS)
        operand.address += registers.fs_base;
    else if (memory.segment == ZYDIS_REGISTER_GS)
        operand.address += registers.gs_base;
    // push and call write below the stack pointer they find.
    if (found->visibility != ZYDIS_OPERAND_VISIBILITY_EXPLICIT && operand.write &&
        memory.base == stack_pointer_of(isa) && operand.displacement == 0)
        operand.address -= operand.bytes;
    operand.address &= capture::word_mask(isa);
    return operand;
}

std::string text_of(const Decoded &decoded, std::uint64_t address) {
    ZydisFormatter formatter;
    char text[256];
    ZydisFormatterInit(&formatter, ZYDIS_FORMATTER_STYLE_ATT);
    for (const ZydisFormatterProperty padding : {ZYDIS_FORMATTER_PROP_DISP_PADDING, ZYDIS_FORMATTER_PROP_IMM_PADDING,
                                                 ZYDIS_FORMATTER_PROP_ADDR_PADDING_ABSOLUTE})
        ZydisFormatterSetProperty(&formatter, padding, ZYDIS_PADDING_DISABLED);
    const bool formatted = ZYAN_SUCCESS(ZydisFormatterFormatInstruction(&formatter, &decoded, decoded.operands.data(),
                                                                        decoded.operand_count_visible, text,
                                                                        sizeof text, address, nullptr));
    return formatted ? without_spaces_between(text) : "";
}

// The target of a call; `registers` are those at the call.
std::optional<std::uint64_t> target_of(const Decoded &decoded, const user_regs_struct &registers,
                                       ProcessMemory &memory) {
    const ZydisDecodedOperand &operand = decoded.operands[0];
    const std::uint64_t next = registers.rip + decoded.length;
    if (const auto distance = decoded.distance())
        return (next + static_cast<std::uint64_t>(*distance)) & capture::word_mask(memory.isa());
    if (operand.type == ZYDIS_OPERAND_TYPE_REGISTER)
        return value_of(operand.reg.value, registers, next);
    if (operand.type != ZYDIS_OPERAND_TYPE_MEMORY)
        return std::nullopt;
    const auto at = operand_of(decoded, registers, memory.isa());
    return at ? memory.word(at->address) : std::nullopt;
}

} // namespace

std::optional<Instruction> instruction_at(const user_regs_struct &registers, ProcessMemory &memory) {
    const auto decoded = decoded_at(registers.rip, memory);
    if (!decoded)
        return std::nullopt;
    Instruction instruction;
    instruction.address = registers.rip;
    instruction.text = text_of(*decoded, registers.rip);
    instruction.memory = operand_of(*decoded, registers, memory.isa());
    const ZydisInstructionCategory category = decoded->meta.category;
    instruction.is_call = category == ZYDIS_CATEGORY_CALL;
    instruction.is_jump = category == ZYDIS_CATEGORY_UNCOND_BR || category == ZYDIS_CATEGORY_COND_BR;
    instruction.is_return = category == ZYDIS_CATEGORY_RET;
    return instruction;
}

CallBefore call_before(std::uint64_t return_address, ProcessMemory &memory) {
    CallBefore found;
    for (std::size_t length = 2; length <= longest_call && length <= return_address; ++length) {
        char bytes[longest_call];
        if (memory.read(return_address - length, std::span(bytes, length)) != length)
            return found;
        found.kind = CallBefore::Kind::no_call;
        const auto call = call_of(std::span(bytes, length), memory.isa());
        if (!call)
            continue;
        found.kind = CallBefore::Kind::call;
        if (const auto distance = call->distance())
            found.target = (return_address + static_cast<std::uint64_t>(*distance)) & capture::word_mask(memory.isa());
        return found;
    }
    return found;
}

std::optional<CallToNowhere> call_ending_at(std::uint64_t return_address, const user_regs_struct &behind,
                                            ProcessMemory &memory) {
    std::optional<CallToNowhere> found;
    for (std::size_t length = 2; length <= longest_call && length <= return_address; ++length) {
        char bytes[longest_call];
        if (memory.read(return_address - length, std::span(bytes, length)) != length)
            break;
        const auto decoded = call_of(std::span(bytes, length), memory.isa());
        if (!decoded)
            continue;
        user_regs_struct registers = behind;
        registers.rip = return_address - length;
        registers.rsp += capture::word_bytes(memory.isa()); // it has pushed the return address
        CallToNowhere call{text_of(*decoded, registers.rip), target_of(*decoded, registers, memory)};
        // More than one length may decode as a call: the one that led where the thread is was made.
        if (call.target == behind.rip)
            return call;
        if (!found)
            found = std::move(call);
    }
    return found;
}

// Between the two the compiler may have scheduled others, but none that moves the stack or jumps.
Prologue prologue_at(std::uint64_t function, ProcessMemory &memory) {
    Prologue prologue;
    const ZydisRegister stack = stack_pointer_of(memory.isa()), base = frame_pointer_of(memory.isa());
    const ZydisRegister instruction = memory.isa() == Isa::i386 ? ZYDIS_REGISTER_EIP : ZYDIS_REGISTER_RIP;
    std::uint64_t at = function;
    for (std::size_t i = 0; i < prologue_instructions_max; ++i) {
        const auto decoded = decoded_at(at, memory);
        if (!decoded)
            return prologue;
        prologue.readable = true;
        at += decoded->length;
        const auto operand_is = [&](std::size_t number, ZydisRegister reg) {
            const ZydisDecodedOperand &operand = decoded->operands[number];
            return operand.type == ZYDIS_OPERAND_TYPE_REGISTER && operand.reg.value == reg;
        };
        const ZydisMnemonic mnemonic = decoded->mnemonic;
        if (prologue.pushed == 0) {
            if (mnemonic == ZYDIS_MNEMONIC_ENDBR64 || mnemonic == ZYDIS_MNEMONIC_ENDBR32)
                continue;
            if (mnemonic != ZYDIS_MNEMONIC_PUSH || !operand_is(0, base))
                return prologue;
            prologue.pushed = at;
            continue;
        }
        if (mnemonic == ZYDIS_MNEMONIC_MOV && operand_is(0, base) && operand_is(1, stack)) {
            prologue.moved = at;
            prologue.frame_pointer = true;
            return prologue;
        }
        for (std::size_t operand = 0; operand < decoded->operand_count; ++operand) {
            const bool writes = decoded->operands[operand].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
            if (writes && (operand_is(operand, stack) || operand_is(operand, base) || operand_is(operand, instruction)))
                return prologue;
        }
    }
    return prologue;
}

std::optional<std::vector<unsigned>> pops_at(std::uint64_t address, ProcessMemory &memory) {
    constexpr std::size_t pops_max = 8; // as many registers as i386 has
    constexpr std::array<std::pair<ZydisRegister, unsigned>, 7> popped{{{ZYDIS_REGISTER_EAX, dwarf_rax},
                                                                        {ZYDIS_REGISTER_EBX, dwarf_rbx},
                                                                        {ZYDIS_REGISTER_ECX, dwarf_rcx},
                                                                        {ZYDIS_REGISTER_EDX, dwarf_rdx},
                                                                        {ZYDIS_REGISTER_ESI, dwarf_rsi},
                                                                        {ZYDIS_REGISTER_EDI, dwarf_rdi},
                                                                        {ZYDIS_REGISTER_EBP, dwarf_rbp}}};
    std::vector<unsigned> places;
    for (;;) {
        const auto decoded = decoded_at(address, memory);
        if (!decoded)
            return std::nullopt;
        const ZydisDecodedOperand &operand = decoded->operands[0];
        if (decoded->meta.category == ZYDIS_CATEGORY_RET)
            return decoded->operand_count_visible == 0 ? std::optional(places) : std::nullopt; // ret $n pops more
        if (decoded->mnemonic != ZYDIS_MNEMONIC_POP || operand.type != ZYDIS_OPERAND_TYPE_REGISTER ||
            places.size() == pops_max)
            return std::nullopt;
        const auto known = std::ranges::find(popped, operand.reg.value, &std::pair<ZydisRegister, unsigned>::first);
        if (known == popped.end())
            return std::nullopt;
        places.push_back(known->second);
        address += decoded->length;
    }
}

bool is_return_at(std::uint64_t address, ProcessMemory &memory) {
    const auto decoded = decoded_at(address, memory);
    return decoded && decoded->meta.category == ZYDIS_CATEGORY_RET;
}

} // namespace incident::postmortem
