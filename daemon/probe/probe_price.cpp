#include "daemon/probe/probe_price.h"

#include "capture/decode/x86_instruction.h"

#include <sys/utsname.h>

#include <algorithm>
#include <charconv>

namespace incident::daemon {

UprobeAbilities UprobeAbilities::here() {
    utsname system{};
    ::uname(&system);
    return of(system.release);
}

UprobeAbilities UprobeAbilities::of(std::string_view release) {
    int major = 0, minor = 0;
    const char *end = release.data() + release.size();
    const auto [dot, error] = std::from_chars(release.data(), end, major);
    if (error == std::errc{} && dot != end)
        std::from_chars(dot + 1, end, minor);
    return {.long_nops = major > 6 || (major == 6 && minor >= 18)};
}

bool is_endbr64(std::span<const std::uint8_t> bytes) {
    return bytes.size() >= 4 && bytes[0] == 0xf3 && bytes[1] == 0x0f && bytes[2] == 0x1e && bytes[3] == 0xfa;
}

bool is_nop5(std::span<const std::uint8_t> bytes) {
    constexpr std::uint8_t nop5[] = {0x0f, 0x1f, 0x44, 0x00, 0x00};
    return bytes.size() >= sizeof(nop5) && std::ranges::equal(bytes.first(sizeof(nop5)), nop5);
}

// branch_setup_xol_ops() and push_setup_xol_ops() of arch/x86/kernel/uprobes.c.
ProbePrice price_of(std::span<const std::uint8_t> bytes, const UprobeAbilities &abilities) {
    const auto instruction = capture::decode_x86(bytes);
    if (!instruction)
        return ProbePrice::Unknown;
    const auto is = [&](ZydisOpcodeMap map, unsigned first, unsigned last) {
        return instruction->encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY && instruction->opcode_map == map &&
               instruction->opcode >= first && instruction->opcode <= last;
    };
    constexpr auto one = ZYDIS_OPCODE_MAP_DEFAULT, two = ZYDIS_OPCODE_MAP_0F;
    const auto &raw = instruction->raw;
    const bool bare = raw.prefix_count == 0, only_rex_b = raw.prefix_count == 1 && bytes[0] == 0x41;
    const bool rex = instruction->attributes & ZYDIS_ATTRIB_HAS_REX;
    const bool emulated =
        (is(one, 0x90, 0x90) && !rex) || (is(two, 0x1f, 0x1f) && !rex && abilities.long_nops) ||
        (is(one, 0x50, 0x57) && (bare || only_rex_b)) ||
        (bare && (is(one, 0xe8, 0xe9) || is(one, 0xeb, 0xeb) || is(one, 0x70, 0x7f) || is(two, 0x80, 0x8f)));
    return emulated ? ProbePrice::Emulated : ProbePrice::SingleStepped;
}

} // namespace incident::daemon
