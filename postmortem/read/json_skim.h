// Reads a few values of a JSON object without building a document. This is for `list`, which reads thousands of bundles
// and shows five short strings of each.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

// `paths` are "rule", "process.exe", "core.join" and so on. For each path the result has the string's value or the
// scalar's text; "" if there is none. Returns false if the text is not a JSON object.
bool skim_json(std::string_view text, std::span<const std::string_view> paths, std::vector<std::string> &values);

} // namespace incident::postmortem
