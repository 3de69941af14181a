// A TOML file as located values, without the parser's types: toml11 and its
// exceptions stay behind this header.
#pragma once

#include "rules/toml/report.h"

#include <string>
#include <vector>

namespace incident::rules {

struct Member;

struct Node {
    enum class Kind { Table, Array, String, Integer, Float, Boolean, Date };

    Kind kind = Kind::Table;
    Span at;  // the value; of a table written as [header], the header
    Span key; // the last part of its key; no line for array elements
    std::string string;
    std::int64_t integer = 0;
    bool boolean = false;
    std::vector<Node> items;     // of an array
    std::vector<Member> members; // of a table, in file order

    const Node *find(std::string_view name) const;
};

struct Member {
    std::string name;
    Node node;
};

// One top-level table, or what stands before the first: a syntax error in one
// does not take the others with it.
struct DocumentPart {
    Node root;
    bool broken = false; // something was left out of it: what is missing may have been there
};

std::vector<DocumentPart> read_document(Report &report);

} // namespace incident::rules
