#include "rules/toml/toml_document.h"

#include "rules/model/units.h"
#include "rules/text/escape.h"
#include "rules/toml/toml_parse.h"
#include "rules/toml/toml_scan.h"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace incident::rules {
namespace {

// toml11 counts the lines of a table anew for each of its values: one huge table
// of this size takes seconds.
constexpr std::size_t largest_source = 128 * 1024;
// The limit for one top-level table; beyond it the rest of the table is skipped.
constexpr int most_syntax_errors = 10;

// Reads a file one top-level table at a time: toml11 stops at the first syntax
// error, and so it is only one table's.  A statement at fault is left out and the
// table read again, to find what else is wrong with it.
class PartReader {
public:
    explicit PartReader(Report &report)
        : report_(report), source_(report.source()), shapes_(line_shapes(source_)),
          skip_(static_cast<std::size_t>(source_.line_count()), false) {}

    std::vector<DocumentPart> read() {
        std::vector<DocumentPart> parts;
        for (int first = 1; first <= source_.line_count();) {
            int last = first;
            while (last < source_.line_count() && !shapes_[index(last + 1)].top_header)
                ++last;
            if (auto part = read_table(first, last)) {
                report_clashes(*part);
                parts.push_back(std::move(*part));
            }
            first = last + 1;
        }
        return parts;
    }

private:
    std::expected<Node, SyntaxError> parse(int first, int last) const {
        if (const auto bad = unparsable_line(first, last))
            return std::unexpected(*bad);
        auto node = parse_toml(source_, first, last, skip_);
        if (!node)
            return std::unexpected(explain(node.error(), report_));
        return std::move(*node);
    }

    std::optional<SyntaxError> unparsable_line(int first, int last) const {
        for (int line = first; line <= last; ++line) {
            int end = line; // a run of lines that are not skipped
            while (end <= last && !skip_[index(end)])
                ++end;
            if (end > line)
                if (auto bad = unparsable(source_, line, end - 1))
                    return SyntaxError{bad->at, bad->message, bad->hint};
            line = end;
        }
        return std::nullopt;
    }

    std::optional<DocumentPart> read_table(int first, int last) {
        DocumentPart part;
        for (int errors = 0; errors < most_syntax_errors; ++errors) {
            if (auto node = parse(first, last)) {
                part.root = std::move(*node);
                return part;
            } else {
                part.broken = true;
                report_.error(node.error().at, node.error().message, node.error().hint);
                if (!leave_out(node.error().at.line, first, last))
                    break;
            }
        }
        return std::nullopt;
    }

    // The same top-level name in two parts, other than [[name]] after [[name]].
    void report_clashes(DocumentPart &part) {
        for (const auto &[name, node] : part.root.members) {
            const auto [earlier, is_new] = top_level_.try_emplace(name, TopLevel{node.key, node.kind});
            if (is_new || (earlier->second.kind == Node::Kind::Array && node.kind == Node::Kind::Array))
                continue;
            part.broken = true;
            const Location first = report_.location(earlier->second.key);
            report_.error(node.key, fmt::format("{} is defined twice", quote(name)),
                          fmt::format("first defined at {}:{}:{}", first.file, first.line, first.column));
        }
    }

    // Skips the whole statement `line` belongs to.  False: it has no clear end,
    // and going on would only report its consequences.
    bool leave_out(int line, int first, int last) {
        int begin = std::clamp(line, first, last), end = begin;
        while (begin > first && shapes_[index(begin)].continues)
            --begin;
        while (end < last && shapes_[index(end)].open_at_end && !shapes_[index(end + 1)].header)
            ++end;
        if (shapes_[index(begin)].header || shapes_[index(end)].open_at_end || skip_[index(begin)])
            return false;
        std::fill(skip_.begin() + begin - 1, skip_.begin() + end, true);
        return true;
    }

    static std::size_t index(int line) { return static_cast<std::size_t>(line) - 1; }

    Report &report_;
    const SourceText &source_;
    std::vector<LineShape> shapes_;
    std::vector<bool> skip_;

    struct TopLevel {
        Span key;
        Node::Kind kind;
    };
    std::map<std::string, TopLevel> top_level_;
};

} // namespace

const Node *Node::find(std::string_view name) const {
    const auto found =
        std::find_if(members.begin(), members.end(), [&](const auto &member) { return member.name == name; });
    return found == members.end() ? nullptr : &found->node;
}

std::vector<DocumentPart> read_document(Report &report) {
    if (report.source().text().size() > largest_source) {
        report.file_error(fmt::format("the file is larger than {}", size_text(largest_source)));
        return {};
    }
    return PartReader(report).read();
}

} // namespace incident::rules
