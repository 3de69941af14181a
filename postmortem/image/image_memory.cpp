#include "postmortem/image/image_memory.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace incident::postmortem {

// Calls for each part of [address, address + bytes) that is not known.
template <typename Fill>
void ImageMemory::add_unknown(std::uint64_t address, std::string_view bytes, const Fill &fill) {
    if (bytes.size() > std::numeric_limits<std::uint64_t>::max() - address)
        bytes = bytes.substr(0, std::numeric_limits<std::uint64_t>::max() - address);
    while (!bytes.empty()) {
        auto next = pieces_.upper_bound(address);
        if (next != pieces_.begin()) {
            const auto &[start, known] = *std::prev(next);
            if (address < start + known.size()) { // known already
                const std::size_t skip = std::min<std::uint64_t>(start + known.size() - address, bytes.size());
                address += skip;
                bytes.remove_prefix(skip);
                continue;
            }
        }
        const std::size_t room =
            next == pieces_.end() ? bytes.size() : std::min<std::uint64_t>(next->first - address, bytes.size());
        fill(address, bytes.substr(0, room));
        address += room;
        bytes.remove_prefix(room);
    }
}

void ImageMemory::add(std::uint64_t address, std::string_view bytes) {
    add_unknown(address, bytes, [this](std::uint64_t at, std::string_view unknown) { fill(at, unknown); });
}

// Pieces are joined at the end: to put something before a piece moves all of it.
void ImageMemory::add_all(std::span<const std::pair<std::uint64_t, std::string_view>> pieces) {
    for (const auto &[address, bytes] : pieces)
        add_unknown(address, bytes,
                    [this](std::uint64_t at, std::string_view unknown) { pieces_.emplace(at, unknown); });
    join();
}

void ImageMemory::join() {
    for (auto it = pieces_.begin(); it != pieces_.end();) {
        auto next = std::next(it);
        for (; next != pieces_.end() && it->first + it->second.size() == next->first; next = pieces_.erase(next))
            it->second += next->second;
        it = next;
    }
}

// Nothing of [address, address + bytes) is known.
void ImageMemory::fill(std::uint64_t address, std::string_view bytes) {
    auto next = pieces_.lower_bound(address);
    auto piece = pieces_.end();
    if (next != pieces_.begin() && std::prev(next)->first + std::prev(next)->second.size() == address) {
        piece = std::prev(next);
        piece->second += bytes;
    } else {
        piece = pieces_.emplace(address, bytes).first;
    }
    if (next != pieces_.end() && piece->first + piece->second.size() == next->first) {
        piece->second += next->second;
        pieces_.erase(next);
    }
}

std::size_t ImageMemory::read(std::uint64_t address, std::span<char> into) const {
    auto next = pieces_.upper_bound(address);
    if (next == pieces_.begin())
        return 0;
    const auto &[start, bytes] = *std::prev(next);
    const std::uint64_t at = address - start;
    if (at >= bytes.size())
        return 0;
    const std::size_t count = std::min<std::uint64_t>(bytes.size() - at, into.size());
    std::memcpy(into.data(), bytes.data() + at, count);
    return count;
}

std::optional<std::uint64_t> ImageMemory::word(std::uint64_t address) const {
    std::uint64_t value;
    char bytes[sizeof value];
    if (read(address, bytes) != sizeof value)
        return std::nullopt;
    std::memcpy(&value, bytes, sizeof value);
    return value;
}

std::optional<std::string> ImageMemory::text(std::uint64_t address, std::size_t most, bool *cut) const {
    std::string text(most, '\0');
    text.resize(read(address, text));
    if (text.empty())
        return std::nullopt;
    const std::size_t end = text.find('\0');
    if (cut)
        *cut = end == std::string::npos;
    if (end != std::string::npos)
        text.resize(end);
    return text;
}

} // namespace incident::postmortem
