#include "rules/text/suggest.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>
#include <vector>

namespace incident::rules {
namespace {

constexpr std::size_t longest_word = 64; // nothing longer was meant to be a key

// Optimal string alignment distance: Levenshtein with swaps of neighbours.
std::size_t distance(const std::string &a, const std::string &b) {
    std::vector<std::size_t> before_last, last(b.size() + 1), row(b.size() + 1);
    std::iota(last.begin(), last.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
        before_last = std::exchange(last, row);
    }
    return last[b.size()];
}

} // namespace

std::string lower(std::string_view text) {
    std::string out(text);
    for (char &c : out)
        if (c >= 'A' && c <= 'Z')
            c = static_cast<char>(c - 'A' + 'a');
    return out;
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
    if (word.size() > longest_word)
        return {};
    const std::string wanted = lower(word);
    std::string best;
    std::size_t best_distance = 0;
    for (const std::string &candidate : candidates) {
        const std::size_t d = distance(wanted, lower(candidate));
        // "warning" for "warn", "proc" for "process"
        const bool begins = std::min(word.size(), candidate.size()) >= 3 &&
                            (wanted.starts_with(lower(candidate)) || lower(candidate).starts_with(wanted));
        const std::size_t limit = std::max<std::size_t>(1, std::min(word.size(), candidate.size()) / 3);
        if ((begins || d <= limit) && (best.empty() || d < best_distance)) {
            best = candidate;
            best_distance = d;
        }
    }
    return best;
}

std::string join(std::span<const std::string> words) {
    return fmt::format("{}", fmt::join(words, ", "));
}

std::string suggestion(std::string_view word, std::span<const std::string> candidates, std::string_view plural) {
    if (const std::string near = nearest(word, candidates); !near.empty())
        return fmt::format("did you mean '{}'?", near);
    return fmt::format("known {}: {}", plural, join(candidates));
}

} // namespace incident::rules
