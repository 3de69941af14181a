#include "rules/toml/report.h"

#include "rules/text/escape.h"

#include <algorithm>
#include <tuple>

namespace incident::rules {
namespace {

// More than anyone reads; keeps a garbage file from flooding the journal.
constexpr std::size_t most_diagnostics = 100;
// For a line that is too long, this many characters before and after the caret are shown.
constexpr std::size_t shown_around = 120;

int characters(std::string_view text) {
    int count = 0;
    for (; !text.empty(); ++count)
        text.remove_prefix(next_character(text).bytes);
    return count;
}

// Splits a line at the span's two ends; a span may point behind the line's end.
struct Cut {
    std::string_view before, marked, after;
};

Cut cut(std::string_view line, Span at) {
    const std::size_t begin = std::min<std::size_t>(static_cast<std::size_t>(std::max(at.column, 1)) - 1, line.size());
    const std::size_t length =
        std::min<std::size_t>(static_cast<std::size_t>(std::max(at.length, 0)), line.size() - begin);
    return {line.substr(0, begin), line.substr(begin, length), line.substr(begin + length)};
}

// Tabs stay: text() repeats them in the caret line, so both lines stay aligned.
std::string shown(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const Character c = next_character(text);
        out += c.code == '\t' ? "\t" : c.shown;
        text.remove_prefix(c.bytes);
    }
    return out;
}

std::string_view last_characters(std::string_view text, std::size_t bytes) {
    std::size_t begin = text.size() - bytes;
    while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
        ++begin;
    return text.substr(begin);
}

std::string_view first_characters(std::string_view text, std::size_t bytes) {
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80)
        --bytes;
    return text.substr(0, bytes);
}

} // namespace

SourceText::SourceText(const Source &source) : text_(source.text), name_(terminal_safe(source.name)) {
    if (text_.starts_with("\xEF\xBB\xBF"))
        text_.remove_prefix(3);
    for (std::string_view rest = text_; !rest.empty();) {
        const std::size_t end = std::min(rest.find('\n'), rest.size());
        std::string_view line = rest.substr(0, end);
        if (line.ends_with('\r'))
            line.remove_suffix(1);
        lines_.push_back(line);
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
}

std::string_view SourceText::line(int number) const {
    if (number < 1 || number > line_count())
        return {};
    return lines_[static_cast<std::size_t>(number) - 1];
}

Report::Report(const SourceText &source, std::vector<Diagnostic> &out)
    : source_(source), out_(out), first_(out.size()) {}

void Report::error(Span at, std::string message, std::string hint) {
    ++errors_;
    add(Severity::Error, at, std::move(message), std::move(hint));
}

void Report::warning(Span at, std::string message, std::string hint) {
    add(Severity::Warning, at, std::move(message), std::move(hint));
}

void Report::file_error(std::string message, std::string hint) {
    error(Span{0, 0, 0}, std::move(message), std::move(hint));
}

Location Report::location(Span at) const {
    return {source_.name(), at.line, characters(cut(source_.line(at.line), at).before) + 1};
}

void Report::add(Severity severity, Span at, std::string message, std::string hint) {
    const std::size_t count = out_.size() - first_;
    if (count > most_diagnostics)
        return;
    if (count == most_diagnostics) {
        out_.push_back({.severity = Severity::Error,
                        .at = {source_.name(), 0, 0},
                        .message = "too many errors in this file; the rest is not shown"});
        return;
    }
    Diagnostic d{.severity = severity, .at = {source_.name(), 0, 0}, .message = std::move(message)};
    d.hint = std::move(hint);
    if (at.line > 0) {
        auto [before, marked, after] = cut(source_.line(at.line), at);
        d.at = location(at);
        d.length = std::max<int>(1, static_cast<int>(display_width(shown(marked))));
        if (before.size() > shown_around)
            before = last_characters(before, shown_around), d.source = "...";
        d.source += shown(before);
        d.caret = static_cast<int>(display_width(d.source)) + 1;
        d.source += shown(marked);
        const bool long_tail = after.size() > shown_around;
        d.source += shown(long_tail ? first_characters(after, shown_around) : after) + (long_tail ? "..." : "");
    }
    out_.push_back(std::move(d));
}

void Report::sort() {
    // "too many errors" has no line and would come first: it stays the last.
    auto end = out_.end();
    if (out_.size() - first_ > most_diagnostics)
        --end;
    std::stable_sort(out_.begin() + static_cast<std::ptrdiff_t>(first_), end, [](const auto &a, const auto &b) {
        return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
    });
}

} // namespace incident::rules
