// What several files of this room read from an entry.  Internal to capture/journal.
#pragma once

#include "capture/journal/last_words.h"
#include "capture/os/number.h"

#include <fmt/format.h>

namespace incident::capture {

// How long journald may take to read what was sent.  If its clocks differ by more, one of them was set meanwhile.
inline constexpr std::uint64_t longest_lag_ns = 60'000'000'000;

inline bool field_is(const JournalField &field, const char *name, const std::string &value) {
    const auto found = field(name, value.size() + 1); // one more: it must not only begin so
    return found && *found == value;
}

// As journald writes numbers, and nobody else's spelling.
template <typename Number> std::optional<Number> number_in(const JournalField &field, const char *name) {
    constexpr std::size_t longest_number = 64;
    const auto text = field(name, longest_number);
    const auto number = text ? whole_number<Number>(*text) : std::nullopt;
    return number && fmt::to_string(*number) == *text ? number : std::nullopt;
}

// How long the entry had waited for journald.
inline std::uint64_t lag_of(const JournalField &field, WallTime shown) {
    const auto sent_us = number_in<std::uint64_t>(field, "_SOURCE_REALTIME_TIMESTAMP");
    if (!sent_us || *sent_us > shown.ns / 1000)
        return 0;
    const std::uint64_t lag = shown.ns - *sent_us * 1000;
    return lag > longest_lag_ns ? 0 : lag;
}

inline std::string manager_unit(std::uint32_t user) {
    return fmt::format("user@{}.service", user);
}

} // namespace incident::capture
