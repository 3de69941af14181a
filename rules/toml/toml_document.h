// A TOML file as values with positions, without the parser's types: toml11 and its exceptions stay behind this header.
#pragma once

#include "rules/toml/report.h"

#include <string>
#include <vector>

namespace incident::rules {

struct Member;

struct Node {
    enum class Kind { Table, Array, String, Integer, Float, Boolean, Date };

    Kind kind = Kind::Table;
    Span at;  // the value; for a table written as [header], the header
    Span key; // the last part of its key; array elements have none
    std::string string;
    std::int64_t integer = 0;
    bool boolean = false;
    std::vector<Node> items;     // for an array
    std::vector<Member> members; // for a table, in file order

    const Node *find(std::string_view name) const;
};

struct Member {
    std::string name;
    Node node;
};

// One top-level table, or the text before the first one. They are parsed separately, so that a syntax error in one does
// not hide the others.
struct DocumentPart {
    Node root;
    bool broken = false; // a part was left out because of an error, so a missing key may have been there
};

std::vector<DocumentPart> read_document(Report &report);

// The position in the source line of byte `at` of the string's value; escapes count as they are written. For a string
// of several lines it is the whole string.
Span place_in_string(const SourceText &source, const Node &node, std::size_t at, std::size_t length);

} // namespace incident::rules
