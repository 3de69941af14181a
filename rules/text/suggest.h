// Hints of the form "did you mean …?".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace incident::rules {

// Changes ASCII letters to lower case and nothing else.
std::string lower(std::string_view text);

// The candidate that the user most likely meant by `word`; "" if none is close. Close means few insertions, deletions,
// replacements and swaps of neighbours, or that one begins with the other. Letter case is ignored.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "did you mean 'nearest'?"; if no candidate is close, "known …: a, b, c".
std::string suggestion(std::string_view word, std::span<const std::string> candidates, std::string_view plural);

// "a, b, c"
std::string join(std::span<const std::string> words);

} // namespace incident::rules
