// What a uprobe on an instruction of x86-64 costs: whether the kernel emulates the instruction or has to single-step it
// out of line.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace incident::daemon {

// What a probe on an instruction costs.
enum class ProbePrice {
    Emulated,      // about 0.7 µs
    SingleStepped, // about 10 µs: a second trap, and a page of the program's own to step in
    Unknown,       // not an instruction that is known here; the kernel decides
};

// What depends on the kernel's version (uname -r).
struct UprobeAbilities {
    // 6.18: nops of any length are emulated, those of 5 bytes turned into a call
    // (arch/x86/kernel/uprobes.c); before, only the one-byte nop was.
    bool long_nops = false;
    static UprobeAbilities of(std::string_view release);
    static UprobeAbilities here(); // of the running kernel
};

ProbePrice price_of(std::span<const std::uint8_t> instruction, const UprobeAbilities &abilities);

bool is_endbr64(std::span<const std::uint8_t> bytes); // 4 bytes; changes nothing
bool is_nop5(std::span<const std::uint8_t> bytes);    // 0f 1f 44 00 00

} // namespace incident::daemon
