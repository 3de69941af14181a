#include "daemon/probe/x86_instruction.h"

#include <sys/utsname.h>

#include <algorithm>
#include <charconv>

namespace incident::daemon {

namespace {

// One instruction's bytes, taken from the front; ok turns false where they end.
struct Reader {
    std::span<const std::uint8_t> bytes;
    std::size_t at = 0;
    bool ok = true;

    std::uint8_t peek() const { return at < bytes.size() ? bytes[at] : 0; }
    std::uint8_t next() {
        if (at >= bytes.size()) {
            ok = false;
            return 0;
        }
        return bytes[at++];
    }
    void skip(std::size_t count) {
        ok = ok && count <= bytes.size() - at;
        at += ok ? count : 0;
    }
};

struct Prefixes {
    bool operand16 = false, address32 = false, rex_w = false, repeat = false;
};

// ModRM with what belongs to it (SIB, displacement); its reg field.
unsigned modrm(Reader &in) {
    const std::uint8_t byte = in.next();
    const unsigned mod = byte >> 6, rm = byte & 7;
    if (mod == 3)
        return (byte >> 3) & 7;
    unsigned base = rm;
    if (rm == 4)
        base = in.next() & 7;
    if (mod == 1)
        in.skip(1);
    else if (mod == 2 || (mod == 0 && base == 5)) // no base, or relative to rip
        in.skip(4);
    return (byte >> 3) & 7;
}

std::size_t immediate(const Prefixes &p) {
    return p.operand16 && !p.rex_w ? 2 : 4;
}

// Map 0f.  Intel SDM volume 2, table A-3.
void two_byte(Reader &in, std::uint8_t op, const Prefixes &p) {
    if (op == 0x38) {
        in.next();
        modrm(in);
        return;
    }
    if (op == 0x3a) {
        in.next();
        modrm(in);
        in.skip(1);
        return;
    }
    if (op >= 0x80 && op <= 0x8f) {
        in.skip(4); // near jcc: 66 does not shorten it on Intel, and nobody writes it
        return;
    }
    const bool alone = (op >= 0x05 && op <= 0x09) || op == 0x0b || op == 0x0e || (op >= 0x30 && op <= 0x37) ||
                       op == 0x77 || (op >= 0xa0 && op <= 0xa2) || (op >= 0xa8 && op <= 0xaa) ||
                       (op >= 0xc8 && op <= 0xcf);
    if (alone)
        return;
    if (op == 0x04 || op == 0x0a || op == 0x0c || (op >= 0x24 && op <= 0x27) || op == 0x36 || op == 0x39 ||
        (op >= 0x3b && op <= 0x3f)) {
        in.ok = false;
        return;
    }
    modrm(in);
    const bool byte_follows = (op >= 0x70 && op <= 0x73) || op == 0xa4 || op == 0xac || op == 0xba || op == 0xc2 ||
                              (op >= 0xc4 && op <= 0xc6) || op == 0x0f;
    if (byte_follows)
        in.skip(1);
    if (op == 0x78 && (p.operand16 || p.repeat)) // SSE4a extrq, insertq
        in.skip(2);
}

// VEX, EVEX, XOP: the map is in the prefix.
void vector(Reader &in, unsigned map) {
    const std::uint8_t op = in.next();
    if (map == 1 && op == 0x77) // vzeroupper
        return;
    modrm(in);
    const bool byte_follows =
        map == 3 || map == 8 || (map == 1 && ((op >= 0x70 && op <= 0x73) || op == 0xc2 || (op >= 0xc4 && op <= 0xc6)));
    if (byte_follows)
        in.skip(1);
    if (map == 10)
        in.skip(4);
    if (map == 0 || map > 10)
        in.ok = false;
}

// Map of one byte.  Table A-2.
void one_byte(Reader &in, std::uint8_t op, const Prefixes &p) {
    if (op < 0x40) { // eight operations, six forms each
        const unsigned form = op & 7;
        if (form < 4)
            modrm(in);
        else if (form < 6)
            in.skip(form == 4 ? 1 : immediate(p));
        else
            in.ok = false; // push/pop of segments: not in 64-bit mode
        return;
    }
    if (op >= 0xb8 && op <= 0xbf) {
        in.skip(p.rex_w ? 8 : immediate(p));
        return;
    }
    if (op >= 0xa0 && op <= 0xa3) {
        in.skip(p.address32 ? 4 : 8);
        return;
    }
    switch (op) {
    case 0x60:
    case 0x61:
    case 0x82:
    case 0x9a:
    case 0xce:
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xea: // clang-format off
        in.ok = false; // clang-format on
        return;
    case 0x68:
    case 0xa9:
        in.skip(immediate(p));
        return;
    case 0x69:
    case 0x81:
    case 0xc7:
        modrm(in);
        in.skip(immediate(p));
        return;
    case 0x6b:
    case 0x80:
    case 0x83:
    case 0xc0:
    case 0xc1:
    case 0xc6:
        modrm(in);
        in.skip(1);
        return;
    case 0x6a:
    case 0xa8:
    case 0xcd:
    case 0xeb:
        in.skip(1);
        return;
    case 0xc2:
    case 0xca:
        in.skip(2);
        return;
    case 0xc8:
        in.skip(3);
        return;
    case 0xe8:
    case 0xe9:
        in.skip(4);
        return;
    case 0xf6:
    case 0xf7:
        if (modrm(in) < 2) // test
            in.skip(op == 0xf6 ? 1 : immediate(p));
        return;
    default:
        break;
    }
    if ((op >= 0x70 && op <= 0x7f) || (op >= 0xb0 && op <= 0xb7) || (op >= 0xe0 && op <= 0xe7))
        in.skip(1);
    else if (op == 0x63 || (op >= 0x84 && op <= 0x8f) || (op >= 0xd0 && op <= 0xd3) || (op >= 0xd8 && op <= 0xdf) ||
             op >= 0xfe)
        modrm(in);
    // the others stand alone
}

bool is_prefix(std::uint8_t byte) {
    return byte == 0x66 || byte == 0x67 || byte == 0xf0 || byte == 0xf2 || byte == 0xf3 || byte == 0x2e ||
           byte == 0x36 || byte == 0x3e || byte == 0x26 || byte == 0x64 || byte == 0x65;
}

} // namespace

std::size_t instruction_length(std::span<const std::uint8_t> bytes) {
    constexpr std::size_t longest = 15;
    Reader in{bytes.first(std::min(bytes.size(), longest))};
    Prefixes p;
    while (in.at < in.bytes.size() && is_prefix(in.peek())) {
        const std::uint8_t byte = in.next();
        p.operand16 |= byte == 0x66;
        p.address32 |= byte == 0x67;
        p.repeat |= byte == 0xf2;
    }
    if ((in.peek() & 0xf0) == 0x40)
        p.rex_w = in.next() & 8;
    const std::uint8_t op = in.next();
    if (op == 0x0f) {
        two_byte(in, in.next(), p);
    } else if (op == 0xc5) {
        in.skip(1);
        vector(in, 1);
    } else if (op == 0xc4) {
        const unsigned map = in.next() & 0x1f;
        in.skip(1);
        vector(in, map);
    } else if (op == 0x62) {
        const unsigned map = in.next() & 7;
        in.skip(2);
        vector(in, map);
    } else if (op == 0x8f && (in.peek() & 0x1f) >= 8) { // XOP; pop has a reg field of 0 there
        const unsigned map = in.next() & 0x1f;
        in.skip(1);
        vector(in, map);
    } else {
        one_byte(in, op, p);
    }
    return in.ok ? in.at : 0;
}

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
    if (bytes.empty() || instruction_length(bytes) == 0)
        return ProbePrice::Unknown;
    std::size_t at = 0;
    bool operand16 = false, other_prefix = false;
    for (; at < bytes.size() && is_prefix(bytes[at]); ++at)
        (bytes[at] == 0x66 ? operand16 : other_prefix) = true;
    if (at >= bytes.size())
        return ProbePrice::Unknown;
    const std::uint8_t op = bytes[at];
    const std::uint8_t second = at + 1 < bytes.size() ? bytes[at + 1] : 0;
    if (op == 0x90)
        return ProbePrice::Emulated;
    if (op == 0x0f && second == 0x1f)
        return abilities.long_nops ? ProbePrice::Emulated : ProbePrice::SingleStepped;
    if (operand16 || other_prefix)
        return ProbePrice::SingleStepped;
    const bool push = (op >= 0x50 && op <= 0x57) || (op == 0x41 && second >= 0x50 && second <= 0x57);
    const bool branch = op == 0xe8 || op == 0xe9 || op == 0xeb || (op >= 0x70 && op <= 0x7f) ||
                        (op == 0x0f && second >= 0x80 && second <= 0x8f);
    return push || branch ? ProbePrice::Emulated : ProbePrice::SingleStepped;
}

} // namespace incident::daemon
