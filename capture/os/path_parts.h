// Walks a path component by component.
#pragma once

#include <algorithm>
#include <string_view>

namespace incident::capture {

// The first component; "" if the path begins with a slash.
constexpr std::string_view first_part(std::string_view path) {
    return path.substr(0, path.find('/'));
}

constexpr std::string_view skip_slashes(std::string_view path) {
    return path.substr(std::min(path.find_first_not_of('/'), path.size()));
}

} // namespace incident::capture
