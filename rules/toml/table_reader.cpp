#include "rules/toml/table_reader.h"

#include "rules/text/escape.h"

#include <algorithm>
#include <fmt/format.h>

namespace incident::rules {

const char *kind_text(Node::Kind kind) {
    switch (kind) {
    case Node::Kind::Table:
        return "a table";
    case Node::Kind::Array:
        return "a list";
    case Node::Kind::String:
        return "a string";
    case Node::Kind::Integer:
        return "an integer";
    case Node::Kind::Float:
        return "a decimal number";
    case Node::Kind::Boolean:
        return "a boolean";
    case Node::Kind::Date:
        return "a date or time";
    }
    return "a value";
}

TableReader::TableReader(const Node &table, std::string where, bool broken, Report &report)
    : table_(table), where_(std::move(where)), broken_(broken), report_(report) {}

const Node *TableReader::find(const std::string &key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
        known_.push_back(key);
    return table_.find(key);
}

const Node *TableReader::require(const std::string &key, const std::string &hint) {
    const Node *node = find(key);
    if (node == nullptr && !broken_)
        report_.error(table_.at, fmt::format("missing key '{}' in {}", key, where_), hint);
    return node;
}

const Node *TableReader::table(const std::string &key, const std::string &example) {
    const Node *node = find(key);
    return node != nullptr && expect(*node, Node::Kind::Table, key, example) ? node : nullptr;
}

bool TableReader::expect(const Node &node, Node::Kind kind, const std::string &key, const std::string &hint) {
    if (node.kind == kind)
        return true;
    std::string better = hint;
    if (kind == Node::Kind::Boolean && node.kind == Node::Kind::String &&
        (node.string == "true" || node.string == "false"))
        better = fmt::format("write {} without quotes", node.string);
    if (kind == Node::Kind::Integer && node.kind == Node::Kind::String && !node.string.empty() &&
        node.string.find_first_not_of("0123456789") == std::string::npos)
        better = fmt::format("write {} without quotes", terminal_safe(node.string));
    error(node,
          fmt::format("'{}' must be {}, found {}", key, kind == Node::Kind::Boolean ? "true or false" : kind_text(kind),
                      kind_text(node.kind)),
          better);
    return false;
}

void TableReader::boolean(const std::string &key, bool &out) {
    if (const Node *node = find(key); node != nullptr && expect(*node, Node::Kind::Boolean, key))
        out = node->boolean;
}

void TableReader::boolean(const std::string &key, std::optional<bool> &out) {
    if (bool value = false; find(key) != nullptr) {
        boolean(key, value);
        out = value;
    }
}

// A value with a unit is a string; a bare number gets the hint how it is written.
const Node *TableReader::with_unit(const std::string &key, const char *what, const std::string &forms) {
    const Node *node = find(key);
    if (node == nullptr)
        return nullptr;
    if (node->kind == Node::Kind::Integer || node->kind == Node::Kind::Float) {
        error(*node, fmt::format("'{}' needs a unit, found a bare number", key), forms);
        return nullptr;
    }
    if (node->kind == Node::Kind::String)
        return node;
    error(*node, fmt::format("'{}' must be a {}, found {}", key, what, kind_text(node->kind)), forms);
    return nullptr;
}

void TableReader::duration(const std::string &key, Nanoseconds least, Nanoseconds most, Nanoseconds &out) {
    const Node *node = with_unit(key, "duration", duration_forms);
    if (node == nullptr)
        return;
    const auto value = parse_duration(node->string);
    if (!value)
        error(*node, fmt::format("'{}' {}", key, value.error().message), value.error().hint);
    else if (*value < least || *value > most)
        error(*node, fmt::format("'{}' must be {} to {}, found {}", key, duration_text(least), duration_text(most),
                                 terminal_safe(node->string)));
    else
        out = *value;
}

std::optional<std::uint64_t> TableReader::size_in(const std::string &key, std::uint64_t least, std::uint64_t most) {
    const Node *node = with_unit(key, "size", size_forms);
    if (node == nullptr)
        return std::nullopt;
    const auto value = parse_size(node->string);
    if (!value)
        error(*node, fmt::format("'{}' {}", key, value.error().message), value.error().hint);
    else if (*value < least || *value > most)
        error(*node, fmt::format("'{}' must be {} to {}, found {}", key, size_text(least), size_text(most),
                                 terminal_safe(node->string)));
    else
        return *value;
    return std::nullopt;
}

std::optional<std::uint64_t> TableReader::integer_in(const std::string &key, std::uint64_t least, std::uint64_t most) {
    const Node *node = find(key);
    if (node == nullptr || !expect(*node, Node::Kind::Integer, key))
        return std::nullopt;
    if (node->integer >= 0 && static_cast<std::uint64_t>(node->integer) >= least &&
        static_cast<std::uint64_t>(node->integer) <= most)
        return static_cast<std::uint64_t>(node->integer);
    // toml11 cuts a number that is too large to INT64_MAX.
    const std::string found = node->integer == INT64_MAX ? "a larger number" : std::to_string(node->integer);
    error(*node, fmt::format("'{}' must be {} to {}, found {}", key, least, most, found));
    return std::nullopt;
}

void TableReader::one_of(const std::string &key, const std::vector<std::string> &choices, std::string &out) {
    const Node *node = find(key);
    if (node == nullptr || !expect(*node, Node::Kind::String, key, fmt::format("one of: {}", join(choices))))
        return;
    if (std::find(choices.begin(), choices.end(), node->string) != choices.end())
        out = node->string;
    else
        error(*node, fmt::format("'{}' cannot be {}", key, quote(node->string)),
              suggestion(node->string, choices, "values"));
}

std::vector<const Node *> TableReader::values(const std::string &key) {
    const Node *node = find(key);
    if (node == nullptr)
        return {};
    if (node->kind != Node::Kind::Array)
        return {node};
    if (node->items.empty())
        error(*node, fmt::format("'{}' is an empty list", key), fmt::format("leave '{}' out instead", key));
    std::vector<const Node *> items;
    items.reserve(node->items.size());
    for (const Node &item : node->items)
        items.push_back(&item);
    return items;
}

void TableReader::refuse(const std::string &key, const std::string &message, const std::string &hint) {
    refused_.push_back(key);
    if (const Node *node = table_.find(key))
        report_.error(node->key, message, hint);
}

void TableReader::pass_over(const std::string &key, const std::string &message, const std::string &hint) {
    refused_.push_back(key);
    if (const Node *node = table_.find(key))
        report_.warning(node->at, message, hint);
}

void TableReader::report_unknown() {
    std::sort(known_.begin(), known_.end());
    for (const auto &[name, node] : table_.members) {
        if (std::binary_search(known_.begin(), known_.end(), name) ||
            std::find(refused_.begin(), refused_.end(), name) != refused_.end())
            continue;
        report_.error(node.key, fmt::format("unknown key {} in {}", quote(name), where_), unknown_hint(name));
    }
}

std::string TableReader::unknown_hint(const std::string &name) const {
    if (const auto exact = elsewhere_.find(name); exact != elsewhere_.end())
        return exact->second;
    std::vector<std::string> others;
    others.reserve(elsewhere_.size());
    for (const auto &[other, hint] : elsewhere_)
        others.push_back(other);
    if (nearest(name, known_).empty())
        if (const std::string near = nearest(name, others); !near.empty())
            return elsewhere_.at(near);
    return suggestion(name, known_, "keys");
}

} // namespace incident::rules
