// The lines of a text.
#pragma once

#include <ranges>
#include <string_view>

namespace incident::capture {

// To be iterated over while text stays; what follows the last newline is a line if it is not empty.
inline auto lines_of(std::string_view text) {
    if (text.ends_with('\n'))
        text.remove_suffix(1);
    return std::views::split(text, '\n') |
           std::views::transform([](const auto &line) { return std::string_view(line.begin(), line.end()); });
}

} // namespace incident::capture
