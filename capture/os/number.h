// Reads a number from a text that somebody else wrote.  The whole text must be the number, without blanks and without
// any sign but '-'.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace incident::capture {

template <typename Number> std::optional<Number> whole_number(std::string_view text, int base = 10) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// false: the text is no number, and into stays as it is.
template <typename Number> bool whole_number(std::string_view text, Number &into) {
    const auto number = whole_number<Number>(text);
    into = number.value_or(into);
    return number.has_value();
}

} // namespace incident::capture
