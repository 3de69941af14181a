// Typed access to one TOML table. A wrong value is reported at its position, and the target keeps its default. A key
// becomes known when the program asks for it.
#pragma once

#include "rules/model/units.h"
#include "rules/text/suggest.h"
#include "rules/toml/report.h"
#include "rules/toml/toml_document.h"

#include <algorithm>
#include <concepts>
#include <map>
#include <type_traits>

namespace incident::rules {

class TableReader {
public:
    // `where` is the table's name in messages: "rule 'crash'". `broken`: a syntax error hides a part of the table, so
    // missing keys are not reported.
    TableReader(const Node &table, std::string where, bool broken, Report &report);

    // Marks the key as known; returns nullptr if the table does not have it.
    const Node *find(const std::string &key);
    // The same for a required key.
    const Node *require(const std::string &key, const std::string &hint);
    // Accepts only tables and reports other values; `example` is the hint.
    const Node *table(const std::string &key, const std::string &example);

    void boolean(const std::string &key, bool &out);
    void boolean(const std::string &key, std::optional<bool> &out);
    void duration(const std::string &key, Nanoseconds least, Nanoseconds most, Nanoseconds &out);
    void one_of(const std::string &key, const std::vector<std::string> &choices, std::string &out);
    // words: of the enumerators, in their order.
    template <typename Enum, std::size_t N>
    requires std::is_enum_v<Enum>
    void one_of(const std::string &key, const char *const (&words)[N], Enum &out) {
        std::string word = word_of(words, out);
        one_of(key, std::vector<std::string>(std::begin(words), std::end(words)), word);
        out = static_cast<Enum>(std::ranges::find(words, word) - words);
    }
    template <std::unsigned_integral T> void integer(const std::string &key, T least, T most, T &out) {
        if (const auto value = integer_in(key, least, most))
            out = static_cast<T>(*value);
    }
    template <std::unsigned_integral T> void size(const std::string &key, T least, T most, T &out) {
        if (const auto value = size_in(key, least, most))
            out = static_cast<T>(*value);
    }
    // A single value or a list of them; an empty list is an error.
    std::vector<const Node *> values(const std::string &key);

    // Names a key of another table, for the hint if somebody writes it here.
    void belongs_elsewhere(const std::string &key, const std::string &hint) { elsewhere_[key] = hint; }
    // Reports an error if the table has the key. The key is not listed among the known ones.
    void refuse(const std::string &key, const std::string &message, const std::string &hint);
    // The same with a warning.
    void pass_over(const std::string &key, const std::string &message, const std::string &hint);
    // Reports every key that the program did not ask for.
    void report_unknown();

    // True if the value has the type; otherwise reports "'name' must be a string, found an integer".
    bool expect(const Node &node, Node::Kind kind, const std::string &key, const std::string &hint = "");
    void error(const Node &node, std::string message, std::string hint = "") {
        report_.error(node.at, std::move(message), std::move(hint));
    }
    Report &report() { return report_; }
    bool broken() const { return broken_; }
    const Node &node() const { return table_; }

private:
    std::optional<std::uint64_t> integer_in(const std::string &key, std::uint64_t least, std::uint64_t most);
    std::optional<std::uint64_t> size_in(const std::string &key, std::uint64_t least, std::uint64_t most);
    std::string unknown_hint(const std::string &name) const;
    const Node *with_unit(const std::string &key, const char *what, const std::string &forms);

    const Node &table_;
    std::string where_;
    bool broken_;
    Report &report_;
    std::vector<std::string> known_;
    std::vector<std::string> refused_;
    std::map<std::string, std::string> elsewhere_;
};

// "a string", "an integer", …
const char *kind_text(Node::Kind kind);

} // namespace incident::rules
