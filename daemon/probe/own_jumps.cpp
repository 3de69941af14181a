#include "daemon/probe/own_jumps.h"

#include "daemon/probe/x86_instruction.h"

#include <algorithm>
#include <array>

namespace incident::daemon {

namespace {

using Code = std::span<const std::uint8_t>;

constexpr std::size_t longest = 15;        // bytes of an instruction
constexpr std::size_t looked_at = 4;       // of one, here: code may end behind the return
constexpr std::size_t instructions_to = 4; // between the load and the jump: other registers are loaded, pops aside
constexpr std::size_t hits_max = 64;

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

// "mov MEMORY, %rsp": REX.W 8B /4.  Not what a function finds in its own frame: it gives its own room back.
bool loads_stack_pointer(Code code) {
    if (code.size() < looked_at || (code[0] & 0xfe) != 0x48 || code[1] != 0x8b)
        return false;
    const unsigned mod = code[2] >> 6, reg = code[2] >> 3 & 7, rm = code[2] & 7, rex_b = code[0] & 1;
    if (reg != 4 || mod == 3)
        return false;
    if (rm == 4) {
        const unsigned base = code[3] & 7;
        return rex_b || !(base == 4 || (base == 5 && mod != 0));
    }
    return rex_b || mod == 0 || rm != 5;
}

// "jmp *REGISTER", "jmp *MEMORY": FF /4
bool jumps_through(Code code) {
    const std::size_t prefix = (code[0] & 0xf0) == 0x40;
    return code.size() > prefix + 1 && code[prefix] == 0xff && (code[prefix + 1] >> 3 & 7) == 4;
}

bool is_pop(Code code) {
    const std::size_t prefix = (code[0] & 0xf0) == 0x40;
    return code.size() > prefix && (code[prefix] & 0xf8) == 0x58;
}

// Goes on somewhere else in a way that is of no interest: call, jmp and jcc to a fixed place, what traps.
bool ends_the_run(Code code) {
    constexpr std::array<std::uint8_t, 7> last{0xc2, 0xe8, 0xe9, 0xeb, 0xcc, 0xf4, 0x0f};
    return std::ranges::find(last, code[0]) != last.end() || (code[0] & 0xf0) == 0x70;
}

// By a jump, or by a return to what is popped from the other stack, as switches of coroutines do.
bool goes_on_there(Code code) {
    constexpr std::uint8_t ret = 0xc3;
    code = code.subspan(instruction_length(code)); // 0 where it is cut off: then it is no jump
    for (std::size_t others = 0; others < instructions_to && !code.empty();) {
        if (jumps_through(code) || code[0] == ret)
            return true;
        const std::size_t length = instruction_length(code);
        if (length == 0 || ends_the_run(code))
            return false;
        others += !is_pop(code);
        code = code.subspan(length);
    }
    return false;
}

// The name of the last function that begins at the address or below.
std::string function_before(const ElfImage &image, std::uint64_t address) {
    std::string name;
    std::uint64_t begin = 0;
    (void)image.walk_symbols([&](const ElfSymbol &symbol) {
        if (symbol.defined && symbol.type == STT_FUNC && symbol.address <= address &&
            (name.empty() || symbol.address > begin)) {
            begin = symbol.address;
            name = symbol.name;
        }
        return true;
    });
    return name;
}

} // namespace

bool has_own_jumps(const ElfImage &image) {
    std::vector<std::uint64_t> hits;
    image.walk_code(longest * (instructions_to + 16), [&](std::uint64_t address, Code code) {
        for (std::size_t i = 0; i + looked_at <= code.size(); ++i)
            if (loads_stack_pointer(code.subspan(i)) && goes_on_there(code.subspan(i)))
                hits.push_back(address + i);
        return hits.size() < hits_max;
    });
    return std::ranges::any_of(hits, [&](std::uint64_t hit) { return !is_seen(function_before(image, hit)); }) &&
           !is_llvm_unwinder(image);
}

} // namespace incident::daemon
