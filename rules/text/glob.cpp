#include "rules/text/glob.h"

#include <algorithm>
#include <fnmatch.h>

namespace incident::rules {

bool glob_matches(const std::string &pattern, const std::string &text) {
    return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

bool any_glob_matches(const std::vector<std::string> &patterns, const std::string &text) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string &pattern) { return glob_matches(pattern, text); });
}

std::string_view literal_prefix(std::string_view pattern) {
    return pattern.substr(0, pattern.find_first_of("*?[\\"));
}

} // namespace incident::rules
