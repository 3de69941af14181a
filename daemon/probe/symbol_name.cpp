#include "daemon/probe/symbol_name.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace incident::daemon {

namespace {

using capture::CloneName;

bool part_of_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || static_cast<unsigned char>(c) >= 0x80;
}

// Spaces only where two words would run together: "unsigned int", not "char const *".
std::string compact(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != ' ') {
            result += text[i];
            continue;
        }
        const std::size_t next = text.find_first_not_of(' ', i);
        if (next != std::string_view::npos && !result.empty() && part_of_name(result.back()) &&
            part_of_name(text[next]))
            result += ' ';
        i = next == std::string_view::npos ? text.size() : next - 1;
    }
    return result;
}

// `to` ends in no sign that sets it off from a word behind it.
void replace_all(std::string &text, std::string_view from, const std::string &to) {
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
        const std::size_t behind = at + from.size();
        const bool word = !to.empty() && part_of_name(to.back()) && behind < text.size() && part_of_name(text[behind]);
        text.replace(at, from.size(), word ? to + " " : to);
    }
}

// One spelling of what has several: spaces, the libraries' inline namespaces, ABI tags, the names that
// typedefs of the standard library stand for.
std::string comparable(std::string_view name) {
    std::string text = compact(name);
    for (const std::string_view inlined : {"std::__cxx11::", "std::__1::"})
        replace_all(text, inlined, "std::");
    for (std::size_t tag; (tag = text.find("[abi:")) != std::string::npos;)
        text.erase(tag, std::min(text.find(']', tag), text.size() - 1) - tag + 1);
    replace_all(text, "std::basic_string<char,std::char_traits<char>,std::allocator<char>>", "std::string");
    replace_all(text, "std::basic_string_view<char,std::char_traits<char>>", "std::string_view");
    for (const std::string_view stream : {"ostream", "istream", "iostream"})
        replace_all(text, "std::basic_" + std::string(stream) + "<char,std::char_traits<char>>",
                    "std::" + std::string(stream));
    return text;
}

// "ns::f<int>" → "ns::f", Rust's "core::f::<i32>" → "core::f".
std::string_view without_template_arguments(std::string_view name) {
    if (!name.ends_with('>') || name.ends_with("operator>") || name.ends_with("operator>>") ||
        name.ends_with("operator->") || name.ends_with("operator<=>"))
        return name;
    int depth = 0;
    for (std::size_t i = name.size(); i-- > 0;) {
        if (name[i] == '>' && (i == 0 || name[i - 1] != '-'))
            ++depth;
        else if (name[i] == '<' && --depth == 0) {
            const std::string_view bare = name.substr(0, i);
            return bare.ends_with("::") ? bare.substr(0, bare.size() - 2) : bare;
        }
    }
    return name;
}

// What a mangling may abbreviate, or spell otherwise (Itanium C++ ABI 5.1.10, 5.1.3).
bool may_be_abbreviated(std::string_view word) {
    static constexpr std::array<std::string_view, 14> words = {
        "std",           "string",   "basic_string",   "allocator", "ostream",   "basic_ostream", "istream",
        "basic_istream", "iostream", "basic_iostream", "anonymous", "namespace", "char_traits",   "operator"};
    return std::ranges::find(words, word) != words.end();
}

// The last identifier of a name outside of its template arguments and braces that every mangling spells out.
std::string telling_identifier(std::string_view name) {
    int depth = 0;
    std::string found, word;
    const auto end_word = [&] {
        const bool plain = !word.empty() && !std::isdigit(static_cast<unsigned char>(word.front())) &&
                           std::ranges::all_of(word, [](unsigned char c) { return c < 0x80 && c != '$'; });
        if (plain && depth == 0 && !may_be_abbreviated(word))
            found = word;
        word.clear();
    };
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (part_of_name(name[i])) {
            word += name[i];
            continue;
        }
        if (word == "operator" && depth == 0)
            break; // its sign, or a type
        if (word.size() && i > word.size() && name[i - word.size() - 1] == '~')
            word.clear(); // a destructor's: its class stands before it
        end_word();
        if (name[i] == '<' || name[i] == '{' || name[i] == '(' || name[i] == '[')
            ++depth;
        else if ((name[i] == '>' && i > 0 && name[i - 1] != '-') || name[i] == '}' || name[i] == ')' || name[i] == ']')
            --depth;
    }
    if (word != "operator")
        end_word();
    return found;
}

// Names of what the compiler makes for a function, not of functions to be asked for: thunks, tables, guards.
bool is_special(std::string_view symbol) {
    return symbol.starts_with("_ZT") || symbol.starts_with("_ZG");
}

} // namespace

std::string readable_name(std::string_view symbol) {
    std::string name = capture::demangled(symbol);
    return name.empty() ? std::string(symbol) : name;
}

WantedName::WantedName(std::string_view text) {
    std::string_view base = text;
    // "@" occurs in no mangled or demangled name
    if (const std::size_t sign = text.find('@'); sign != std::string_view::npos && sign > 0) {
        needs_default_ = text.substr(sign).starts_with("@@");
        version_ = text.substr(sign + (needs_default_ ? 2 : 1));
        base = text.substr(0, sign);
    }
    base_ = base;
    const std::string_view unhashed = capture::without_rust_hash(base);
    if (unhashed.size() != base.size()) {
        hash_ = "17h" + std::string(base.substr(base.size() - 16)) + "E";
        base = unhashed;
    }
    const auto parts = capture::function_name_parts(base);
    whole_ = comparable(base);
    name_ = comparable(parts.name);
    parameters_ = comparable(std::string(parts.parameters) + std::string(parts.qualifiers));
    identifier_ = telling_identifier(without_template_arguments(parts.name));
}

std::string WantedName::name() const {
    return std::string(capture::function_name_parts(base_).name);
}

WantedName::Match WantedName::matches(std::string_view symbol, std::string_view version, bool default_version) const {
    if (!version_.empty() && (version != version_ || (needs_default_ && !default_version)))
        return Match::No;
    if (symbol == base_)
        return Match::Yes;
    const auto clone = capture::clone_name(symbol);
    const Match match = clone.kind == CloneName::Kind::Itself  ? Match::Yes
                        : clone.kind == CloneName::Kind::Entry ? Match::Clone
                                                               : Match::Part;
    if (clone.stem == base_)
        return match;
    if (!capture::is_mangled(clone.stem) || capture::is_mangled(base_))
        return Match::No;
    if (!identifier_.empty() && symbol.find(identifier_) == std::string_view::npos)
        return Match::No;
    if (!clone.suffix.empty() && base_.ends_with(']') && base_.find(" [clone ") != std::string::npos)
        return comparable(capture::demangled(symbol)) == whole_ ? Match::Yes : Match::No;
    return matches_demangled(clone.stem) ? match : Match::No;
}

bool WantedName::matches_demangled(std::string_view symbol) const {
    if (!hash_.empty() && !symbol.ends_with(hash_))
        return false;
    demangled_bytes_ += symbol.size();
    const std::string text = capture::demangled(symbol);
    if (text.empty())
        return false;
    if (comparable(text) == whole_)
        return true;
    if (is_special(symbol))
        return false;
    const auto parts = capture::function_name_parts(text);
    const std::string name = comparable(parts.name);
    if (name == whole_) // also where that reads as if it had parameters: "A::operator int (*)()"
        return true;
    if (!parameters_.empty() &&
        comparable(std::string(parts.parameters) + std::string(parts.qualifiers)) != parameters_)
        return false;
    return name == name_ || without_template_arguments(name) == name_;
}

bool WantedName::same_but_for_parameters(std::string_view symbol) const {
    if (!capture::is_mangled(symbol) || is_special(symbol))
        return false;
    const std::string text = capture::demangled(capture::clone_name(symbol).stem);
    const std::string name = comparable(capture::function_name_parts(text).name);
    return !text.empty() && (name == name_ || without_template_arguments(name) == without_template_arguments(name_));
}

bool WantedName::resembles(std::string_view symbol) const {
    return symbol.find(identifier_.empty() ? base_ : identifier_) != std::string_view::npos;
}

} // namespace incident::daemon
