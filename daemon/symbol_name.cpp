#include "daemon/symbol_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

namespace incident::daemon {

namespace {

bool part_of_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$';
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

// Where the parameter list of a demangled name begins; npos: it has none.  The list is
// the last group of parentheses at nesting depth 0 — "operator()(int)", "f(int) const".
std::size_t parameters_of(std::string_view name) {
    int depth = 0;
    std::size_t at = std::string_view::npos;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const char c = name[i];
        if (name.substr(i).starts_with("operator")) {
            i += 7; // its own symbols are no brackets
            while (i + 1 < name.size() && std::string_view("<>=-+").find(name[i + 1]) != std::string_view::npos)
                ++i;
            if (name.substr(i + 1).starts_with("()"))
                i += 2;
            continue;
        }
        if (c == '(' && depth == 0)
            at = i;
        if (c == '(' || c == '<' || c == '{' || c == '[')
            ++depth;
        else if ((c == ')' || c == '>' || c == '}' || c == ']') && depth > 0)
            --depth;
    }
    return at;
}

// "void ns::f<int>" → "ns::f<int>": templates demangle with their return type.
std::string_view without_return_type(std::string_view name) {
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (name.substr(i).starts_with("operator"))
            break;
        const char c = name[i];
        if (c == '<' || c == '(' || c == '{' || c == '[')
            ++depth;
        else if (c == '>' || c == ')' || c == '}' || c == ']')
            --depth;
        else if (c == ' ' && depth == 0)
            begin = i + 1;
    }
    return name.substr(begin);
}

std::string_view without_template_arguments(std::string_view name) {
    if (!name.ends_with('>') || name.find("operator") != std::string_view::npos)
        return name;
    int depth = 0;
    for (std::size_t i = name.size(); i-- > 0;) {
        depth += name[i] == '>' ? 1 : name[i] == '<' ? -1 : 0;
        if (depth == 0)
            return name.substr(0, i);
    }
    return name;
}

// The last identifier of the function's own name: "ns::f<int>(int)" → "f".
std::string last_identifier(std::string_view name) {
    std::string_view own = name.substr(0, parameters_of(name));
    if (own.find("operator") != std::string_view::npos)
        return {};
    own = without_template_arguments(own);
    std::size_t begin = own.size();
    while (begin > 0 && part_of_name(own[begin - 1]))
        --begin;
    if (begin > 0 && own[begin - 1] == '~') // mangled as a number
        return {};
    const std::string last(own.substr(begin));
    // a constructor is C1/C2 behind its class: "Foo::Foo" still holds "3Foo"
    return last;
}

} // namespace

std::string demangled(std::string_view symbol) {
    constexpr std::size_t longest = 16 * 1024; // a demangled name may be far longer than its symbol
    if (!symbol.starts_with("_Z") || symbol.size() > longest)
        return {};
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(std::string(symbol).c_str(), nullptr, nullptr, &status), &std::free);
    return status == 0 && text ? std::string(text.get()) : std::string();
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
    compact_ = compact(base_);
    identifier_ = last_identifier(base_);
    has_parameters_ = parameters_of(compact_) != std::string::npos;
}

bool WantedName::matches(std::string_view symbol, std::string_view version, bool default_version) const {
    if (!version_.empty() && (version != version_ || (needs_default_ && !default_version)))
        return false;
    if (symbol == base_)
        return true;
    if (!symbol.starts_with("_Z") || base_.starts_with("_Z"))
        return false;
    if (!identifier_.empty() && symbol.find(identifier_) == std::string_view::npos)
        return false;
    return matches_demangled(symbol);
}

bool WantedName::matches_demangled(std::string_view symbol) const {
    std::string name = demangled(symbol);
    // parts that the compiler split off (".cold", ".part.0") are not the function
    if (name.empty() || name.find("[clone ") != std::string::npos)
        return false;
    if (compact(name) == compact_)
        return true;
    const std::size_t parameters = parameters_of(name);
    const std::string_view own = without_return_type(std::string_view(name).substr(0, parameters));
    if (has_parameters_) // "f<int>(int)" for "void f<int>(int)"
        return compact(std::string(own) + (parameters == std::string::npos ? "" : name.substr(parameters))) == compact_;
    return compact(own) == compact_ || compact(without_template_arguments(own)) == compact_;
}

} // namespace incident::daemon
