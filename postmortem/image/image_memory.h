// The known parts of a process's memory: pieces by address that do not overlap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace incident::postmortem {

class ImageMemory {
public:
    // Known bytes are not overwritten. Pieces that touch become one.
    void add(std::uint64_t address, std::string_view bytes);
    // The same of many, one after the other: takes n log n also where each lies right before the one that was added
    // last.
    void add_all(std::span<const std::pair<std::uint64_t, std::string_view>> pieces);
    // Copies known bytes from `address` to the first gap; returns their number.
    std::size_t read(std::uint64_t address, std::span<char> into) const;
    std::optional<std::uint64_t> word(std::uint64_t address) const;
    // The text at `address` up to a NUL, at most `most` bytes; not set if its beginning is unknown. `cut`: no NUL was
    // reached.
    std::optional<std::string> text(std::uint64_t address, std::size_t most, bool *cut = nullptr) const;
    const std::map<std::uint64_t, std::string> &pieces() const { return pieces_; }

private:
    template <typename Fill> void add_unknown(std::uint64_t address, std::string_view bytes, const Fill &fill);
    void fill(std::uint64_t address, std::string_view bytes);
    void join();
    std::map<std::uint64_t, std::string> pieces_;
};

} // namespace incident::postmortem
