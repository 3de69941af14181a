#include "postmortem/read/json_skim.h"

#include <algorithm>
#include <simdjson.h>

namespace incident::postmortem {

namespace {

std::string scalar_at(simdjson::dom::object object, std::string_view path) {
    std::string pointer = "/" + std::string(path);
    std::ranges::replace(pointer, '.', '/');
    simdjson::dom::element value;
    std::string_view text;
    if (object.at_pointer(pointer).get(value) || value.is_object() || value.is_array() || value.is_null())
        return "";
    return value.get(text) ? simdjson::minify(value) : std::string(text);
}

} // namespace

bool skim_json(std::string_view text, std::span<const std::string_view> paths, std::vector<std::string> &values) {
    thread_local simdjson::dom::parser parser; // its memory serves the next text too
    values.assign(paths.size(), "");
    simdjson::dom::object object;
    if (parser.parse(text.data(), text.size()).get(object))
        return false;
    std::ranges::transform(paths, values.begin(), [&](std::string_view path) { return scalar_at(object, path); });
    return true;
}

} // namespace incident::postmortem
