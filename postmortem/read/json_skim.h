// A few values out of a JSON object without building a document: `list` reads
// thousands of bundles, of which it shows five short strings each.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

// paths: "rule", "process.exe", "core.join".  For each the string's value or the scalar's text; "" where there is none.
// Returns false where the text is no JSON object.
bool skim_json(std::string_view text, std::span<const std::string_view> paths, std::vector<std::string> &values);

} // namespace incident::postmortem
