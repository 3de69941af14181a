// Splits a text into lines.
#pragma once

#include <ranges>
#include <string_view>

namespace incident::capture {

// The result is valid as long as text.  What follows the last newline is a line if it is not empty.
inline auto lines_of(std::string_view text) {
    if (text.ends_with('\n'))
        text.remove_suffix(1);
    return std::views::split(text, '\n') |
           std::views::transform([](const auto &line) { return std::string_view(line.begin(), line.end()); });
}

} // namespace incident::capture
