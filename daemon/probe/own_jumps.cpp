#include "daemon/probe/own_jumps.h"

#include "capture/decode/x86_instruction.h"

#include <algorithm>
#include <array>

namespace incident::daemon {

namespace {

using Code = std::span<const std::uint8_t>;

constexpr std::size_t longest = 15;        // bytes of an instruction
constexpr std::size_t looked_at = 4;       // of one, here: code may end behind the return
constexpr std::size_t instructions_to = 4; // between the load and the jump: other registers are loaded, pops aside
constexpr std::size_t hits_max = 64;
constexpr std::uint64_t function_max = 1u << 20; // bytes of one that is decoded from its beginning

constexpr std::array<std::string_view, 7> followed = {"longjmp",     "_longjmp",   "siglongjmp", "__longjmp_chk",
                                                      "FPC_LONGJMP", "setcontext", "swapcontext"};
// Where LLVM's unwinder goes on, having been told where by _Unwind_SetIP; its library may be stripped of the name.
constexpr std::string_view llvm_lands = "__libunwind_Registers_x86_64_jumpto", of_llvm_unwinder = "unw_resume";
// V8's leave frames of JavaScript only, and after the C++ function that they called has returned.
constexpr std::string_view of_v8 = "Builtins_";

bool is_seen(std::string_view function) {
    return std::ranges::find(followed, function) != followed.end() || function == llvm_lands ||
           function.starts_with(of_v8);
}

bool is_llvm_unwinder(const ElfImage &image) {
    bool is = false;
    (void)image.walk_symbols([&](const ElfSymbol &symbol) {
        is = symbol.defined && symbol.name.ends_with(of_llvm_unwinder);
        return !is;
    });
    return is;
}

// Length of "mov MEMORY, %rsp" (REX.W 8B /4); 0: not one.  Not what a function finds in its own frame: it gives its own
// room back.
std::size_t loads_stack_pointer(Code code) {
    // Code is looked at from every byte on: what cannot be such a load is not decoded.
    if ((code[0] & 0xfe) != 0x48 || code[1] != 0x8b || (code[2] >> 3 & 7) != 4)
        return 0;
    const auto load = capture::decode_x86(code);
    if (!load || load->operands[1].type != ZYDIS_OPERAND_TYPE_MEMORY)
        return 0;
    const ZydisDecodedOperandMem &from = load->operands[1].mem;
    return from.base == ZYDIS_REGISTER_RSP || from.base == ZYDIS_REGISTER_RBP ? 0 : load->length;
}

// By a jump through a register or memory, or by a return to what is popped from the other stack, as switches of
// coroutines do.
bool goes_on_there(Code code) {
    constexpr std::uint8_t ret = 0xc3;
    for (std::size_t others = 0; others < instructions_to;) {
        const auto next = capture::decode_x86(code);
        if (!next)
            return false;
        const auto category = next->meta.category;
        if (category == ZYDIS_CATEGORY_RET)
            return next->opcode == ret;
        if (category == ZYDIS_CATEGORY_UNCOND_BR)
            return !next->distance();
        if (next->changes_course())
            return false;
        others += category != ZYDIS_CATEGORY_POP;
        code = code.subspan(next->length);
    }
    return false;
}

struct Function {
    std::string name; // "" if none is known
    LinkAddress begin;
    std::uint64_t size = 0;
};

// The last function that begins at the address or below.
Function function_before(const ElfImage &image, LinkAddress address) {
    Function last;
    (void)image.walk_symbols([&](const ElfSymbol &symbol) {
        if (symbol.defined && symbol.type == STT_FUNC && symbol.address <= address &&
            (last.name.empty() || symbol.address > last.begin))
            last = {std::string(symbol.name), symbol.address, symbol.size};
        return true;
    });
    return last;
}

// In the midst of an instruction the bytes of a number may look like such a load by chance: one in tens of megabytes
// does.  Where it cannot be told, it may be one.
bool is_in_an_instruction(const ElfImage &image, const Function &function, LinkAddress address) {
    const std::uint64_t distance = address - function.begin;
    if (function.name.empty() || distance >= function.size || distance > function_max)
        return false;
    const auto bytes = image.bytes(function.begin, distance + longest);
    for (std::size_t at = 0; at < bytes.size();) {
        if (at >= distance)
            return at != distance;
        const auto instruction = capture::decode_x86(Code(bytes).subspan(at));
        if (!instruction)
            return false; // data between code
        at += instruction->length;
    }
    return false;
}

} // namespace

bool has_own_jumps(const ElfImage &image) {
    std::vector<LinkAddress> hits;
    image.walk_code(longest * (instructions_to + 16), [&](LinkAddress address, Code code) {
        for (std::size_t i = 0; i + looked_at <= code.size(); ++i)
            if (const std::size_t load = loads_stack_pointer(code.subspan(i));
                load > 0 && goes_on_there(code.subspan(i + load)))
                hits.push_back(address + i);
        return hits.size() < hits_max;
    });
    return std::ranges::any_of(hits,
                               [&](LinkAddress hit) {
                                   const Function function = function_before(image, hit);
                                   return !is_seen(function.name) && !is_in_an_instruction(image, function, hit);
                               }) &&
           !is_llvm_unwinder(image);
}

} // namespace incident::daemon
