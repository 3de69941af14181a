#include "daemon/probe/go_program.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace incident::daemon {

namespace {

constexpr std::string_view magic = "\xff Go buildinf:"; // debug/buildinfo/buildinfo.go
constexpr std::size_t header_length = 32, version_max = 128;
constexpr int minor_min = 17;

std::string as_text(const std::vector<std::uint8_t> &bytes) {
    return {bytes.begin(), bytes.end()};
}

} // namespace

bool is_go(const ElfImage &image) {
    return image.has_section(".note.go.buildid") || image.has_section(".gopclntab") ||
           image.has_section(".data.rel.ro.gopclntab");
}

std::string go_version(const ElfImage &image) {
    const auto address = image.section_address(".go.buildinfo");
    if (!address)
        return {};
    const auto header = image.bytes(*address, header_length + 1 + version_max);
    if (header.size() < header_length || as_text(header).substr(0, magic.size()) != magic)
        return {};
    const bool inline_strings = header[15] & 2; // since 1.18
    if (inline_strings) {
        if (header.size() <= header_length)
            return {};
        const std::size_t length = header[header_length]; // a varint: one byte up to 127
        if (length >= version_max || header.size() < header_length + 1 + length)
            return {};
        return as_text(header).substr(header_length + 1, length);
    }
    std::uint64_t words[2] = {}; // address of a string's header, then of its bytes and their number
    std::memcpy(words, header.data() + 16, sizeof(words[0]));
    const auto string = image.bytes(LinkAddress(words[0]), sizeof(words));
    if (string.size() < sizeof(words))
        return {};
    std::memcpy(words, string.data(), sizeof(words));
    return words[1] < version_max ? as_text(image.bytes(LinkAddress(words[0]), words[1])) : "";
}

Status check_goroutine(const ElfImage &image, std::string_view symbol) {
    constexpr std::string_view prefix = "go1.";
    const std::string version = go_version(image);
    const std::size_t at = version.find(prefix);
    int minor = 0;
    if (at != std::string::npos)
        std::from_chars(version.data() + at + prefix.size(), version.data() + version.size(), minor);
    if (minor == 0)
        return fail("is in a Go program whose version cannot be told: calls are timed by goroutine, and where that is "
                    "kept depends on it");
    if (minor < minor_min)
        return fail(fmt::format("is in a program built with {}: which goroutine calls can be told since go1.{} only",
                                version, minor_min));
    if (symbol.ends_with(".abi0"))
        return fail("is assembly with Go's former calling convention (ABI0), which keeps the goroutine nowhere known: "
                    "name the function without \".abi0\"");
    return {};
}

} // namespace incident::daemon
