#include "capture/os/auxv.h"

#include <cstring>
#include <elf.h>

namespace incident::capture {

namespace {

template <typename Word> std::optional<std::uint64_t> value_in(std::string_view bytes, std::uint64_t type) {
    Word pair[2];
    for (std::size_t at = 0; at + sizeof pair <= bytes.size(); at += sizeof pair) {
        std::memcpy(pair, bytes.data() + at, sizeof pair);
        if (pair[0] == AT_NULL)
            break;
        if (pair[0] == type)
            return pair[1];
    }
    return std::nullopt;
}

} // namespace

// Types are small numbers, so the upper half of a wide vector's first word is 0.  Of a narrow one these bytes are the
// first value: AT_SYSINFO's, and without a vdso AT_MINSIGSTKSZ's (ARCH_DLINFO_IA32), which are not.
bool is_narrow_auxv(std::string_view bytes) {
    std::uint32_t words[2];
    if (bytes.size() < sizeof words)
        return false;
    std::memcpy(words, bytes.data(), sizeof words);
    return words[1] != 0;
}

std::optional<std::uint64_t> auxv_value(std::string_view bytes, std::uint64_t type) {
    return is_narrow_auxv(bytes) ? value_in<std::uint32_t>(bytes, type) : value_in<std::uint64_t>(bytes, type);
}

std::string_view saved_auxv(const bpf::death_event &event) {
    return {reinterpret_cast<const char *>(event.auxv), sizeof event.auxv};
}

std::string_view abi_name(std::string_view auxv, bool in_32bit_code, bool in_64bit_code) {
    const bool known = auxv.find_first_not_of('\0') != std::string_view::npos;
    if (!known)
        return in_32bit_code ? "i386" : "x86-64";
    if (!is_narrow_auxv(auxv))
        return "x86-64";
    return in_32bit_code || !in_64bit_code ? "i386" : "x32";
}

Isa isa_of(const bpf::user_registers &registers) {
    return registers.cs == code_segment_32bit ? Isa::i386 : Isa::x86_64;
}

} // namespace incident::capture
