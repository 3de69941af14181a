// "did you mean …?"
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace incident::rules {

// ASCII letters in lower case, the rest as it is.
std::string lower(std::string_view text);

// The candidate that `word` most likely was meant to be (insertions, deletions,
// replacements and swaps of neighbours, or one begins with
// the other; letter case is ignored), "" if none is near.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

// "did you mean 'nearest'?", else "known …: a, b, c".
std::string suggestion(std::string_view word, std::span<const std::string> candidates, std::string_view plural);

// "a, b, c"
std::string join(std::span<const std::string> words);

} // namespace incident::rules
