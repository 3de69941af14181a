// Collects the diagnostics of one source. It turns a position in the text into a Diagnostic with line, caret and hint.
#pragma once

#include "rules/model/source.h"
#include "rules/toml/diagnostic.h"

#include <string_view>

namespace incident::rules {

// A piece of one source line; line and column count bytes from 1.
struct Span {
    int line = 0;
    int column = 0;
    int length = 1;
};

// The lines of a source, without their line ends and without a byte-order mark.
class SourceText {
public:
    explicit SourceText(const Source &source); // keeps a view, so `source` must outlive it

    const std::string &name() const { return name_; }
    std::string_view text() const { return text_; }
    int line_count() const { return static_cast<int>(lines_.size()); }
    std::string_view line(int number) const; // "" if there is no such line

private:
    std::string_view text_;
    std::string name_;
    std::vector<std::string_view> lines_;
};

class Report {
public:
    // Diagnostics are appended to `out`; `sort` puts them in the order of their positions.
    Report(const SourceText &source, std::vector<Diagnostic> &out);

    void error(Span at, std::string message, std::string hint = "");
    void warning(Span at, std::string message, std::string hint = "");
    // Adds a message about the file as a whole.
    void file_error(std::string message, std::string hint = "");
    std::size_t errors() const { return errors_; }
    const SourceText &source() const { return source_; }
    // "crash.toml:3:8", for a message that points at a second position.
    Location location(Span at) const;

    void sort();

private:
    void add(Severity severity, Span at, std::string message, std::string hint);

    const SourceText &source_;
    std::vector<Diagnostic> &out_;
    std::size_t first_; // index in out_ of this source's first diagnostic
    std::size_t errors_ = 0;
};

} // namespace incident::rules
