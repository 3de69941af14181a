// Tells what a uprobe on an instruction of x86-64 costs.  It is cheap if the kernel emulates the instruction, and
// expensive if the kernel must single-step it out of line.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace incident::daemon {

// What a probe on an instruction costs.
enum class ProbePrice {
    Emulated,      // about 0.7 µs
    SingleStepped, // about 10 µs: a second trap, and a page in the program to step in
    Unknown,       // not an instruction that is known here; the kernel decides
};

// What the version of the kernel decides (uname -r).
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
