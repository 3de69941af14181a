#include "postmortem/unwind/entry_register.h"

#include "capture/decode/x86_instruction.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <vector>

namespace incident::postmortem {

namespace {

constexpr std::uint64_t function_max = 64 * 1024; // bytes; a longer one is not read

struct ArgumentRegister {
    std::string_view name;
    ZydisRegister reg;
};
constexpr std::array<ArgumentRegister, 6> passed_in{{{"rdi", ZYDIS_REGISTER_RDI},
                                                     {"rsi", ZYDIS_REGISTER_RSI},
                                                     {"rdx", ZYDIS_REGISTER_RDX},
                                                     {"rcx", ZYDIS_REGISTER_RCX},
                                                     {"r8", ZYDIS_REGISTER_R8},
                                                     {"r9", ZYDIS_REGISTER_R9}}};

using capture::decode_x86, capture::X86Instruction;

bool writes(const X86Instruction &instruction, ZydisRegister reg) {
    if (instruction.meta.category == ZYDIS_CATEGORY_CALL || instruction.meta.category == ZYDIS_CATEGORY_SYSCALL)
        return true; // whoever is called may
    return instruction.writes_any_of({&reg, 1});
}

bool is_jump(const X86Instruction &instruction) {
    return instruction.meta.category == ZYDIS_CATEGORY_COND_BR || instruction.meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}

// The target of a jump, if the instruction itself contains it.
std::optional<std::uint64_t> fixed_target(const X86Instruction &instruction, std::uint64_t at) {
    const auto distance = is_jump(instruction) ? instruction.distance() : std::nullopt;
    return distance ? std::optional(at + instruction.length + static_cast<std::uint64_t>(*distance)) : std::nullopt;
}

// A jump whose place is not known may lead anywhere.
bool may_lead_back(const X86Instruction &instruction, std::uint64_t at, std::uint64_t entry, std::uint64_t ip) {
    const auto target = fixed_target(instruction, at);
    return target ? *target >= entry && *target <= ip : is_jump(instruction);
}

// Code elsewhere that the function jumps to: another function that ends in its place (a tail call), or the seldom part
// of its own (GCC's NAME.cold), which may come back to the middle.  Whatever it does to the register is not looked at.
bool may_come_back(std::uint64_t from, std::uint64_t entry, std::uint64_t end, ProcessMemory &memory) {
    constexpr std::size_t instructions_max = 2048;
    std::vector<std::uint64_t> ways{from};
    std::set<std::uint64_t> seen;
    while (!ways.empty()) {
        std::uint64_t at = ways.back();
        ways.pop_back();
        for (;;) {
            if (at > entry && at < end)
                return true;
            if (at == entry || !seen.insert(at).second) // a call of it anew; been there
                break;
            std::array<char, ZYDIS_MAX_INSTRUCTION_LENGTH> code;
            const auto instruction = decode_x86(std::span(code).first(memory.read(at, code)));
            if (seen.size() > instructions_max || !instruction)
                return true; // as far as is known
            const auto category = instruction->meta.category;
            if (const auto target = fixed_target(*instruction, at))
                ways.push_back(*target);
            if (category == ZYDIS_CATEGORY_UNCOND_BR || category == ZYDIS_CATEGORY_RET ||
                instruction->mnemonic == ZYDIS_MNEMONIC_UD2)
                break; // through a register or memory: another function (the PLT), or one of a table's
            at += instruction->length;
        }
    }
    return false;
}

} // namespace

unsigned argument_number(std::string_view reg) {
    const auto it = std::ranges::find(passed_in, reg, &ArgumentRegister::name);
    return it == passed_in.end() ? 0 : static_cast<unsigned>(it - passed_in.begin()) + 1;
}

bool untouched_since_entry(std::string_view name, std::uint64_t entry, std::uint64_t end, std::uint64_t ip,
                           ProcessMemory &memory) {
    const unsigned number = argument_number(name);
    if (number == 0 || ip < entry || ip >= end || end - entry > function_max)
        return false;
    const ZydisRegister reg = passed_in[number - 1].reg;
    std::vector<char> code(end - entry);
    if (memory.read(entry, code) != code.size())
        return false;
    bool written_behind = false, led_back = false;
    for (std::uint64_t at = entry; at < end;) {
        const auto instruction = decode_x86(std::span(code).subspan(at - entry));
        if (!instruction)
            return false;
        // what is executed at ip itself has not been
        if (at < ip && writes(*instruction, reg))
            return false;
        if (at >= ip) {
            written_behind = written_behind || writes(*instruction, reg);
            led_back = led_back || may_lead_back(*instruction, at, entry, ip);
        }
        const auto target = fixed_target(*instruction, at);
        if (target && (*target < entry || *target >= end) && may_come_back(*target, entry, end, memory))
            return false;
        at += instruction->length;
    }
    return !(written_behind && led_back);
}

} // namespace incident::postmortem
