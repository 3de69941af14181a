// The known memory of the crashed process: captured bytes and, where these are missing, the files'. Internal to
// unwind/.
#pragma once

#include "capture/os/isa.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

namespace incident::postmortem {

class ProcessMemory {
public:
    explicit ProcessMemory(capture::Isa isa = capture::Isa::x86_64) : isa_(isa) {}
    virtual ~ProcessMemory() = default;
    capture::Isa isa() const { return isa_; }
    // Copies known bytes from `address` on; returns how many.
    virtual std::size_t read(std::uint64_t address, std::span<char> into) = 0;

    // A number of 1 to 8 bytes, zero-extended.
    std::optional<std::uint64_t> number(std::uint64_t address, std::size_t bytes) {
        char raw[sizeof(std::uint64_t)] = {};
        if (bytes > sizeof raw || read(address, std::span(raw, bytes)) != bytes)
            return std::nullopt;
        std::uint64_t value;
        std::memcpy(&value, raw, sizeof value);
        return value;
    }
    std::optional<std::uint64_t> word(std::uint64_t address) { return number(address, capture::word_bytes(isa_)); }
    // A text up to a NUL, at most `most` bytes; not set if its end is unknown.
    std::optional<std::string> text(std::uint64_t address, std::size_t most) {
        std::string bytes(most, '\0');
        bytes.resize(read(address, bytes));
        const std::size_t end = bytes.find('\0');
        if (end == std::string::npos)
            return std::nullopt;
        bytes.resize(end);
        return bytes;
    }

private:
    capture::Isa isa_;
};

} // namespace incident::postmortem
