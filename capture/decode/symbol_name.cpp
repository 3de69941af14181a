#include "capture/decode/symbol_name.h"

#define HAVE_DECL_BASENAME 1 // else libiberty.h declares it, otherwise than <cstring> does
#include <libiberty/demangle.h>

#include <algorithm>
#include <cctype>
#include <csetjmp>
#include <vector>

namespace incident::capture {

namespace {

// ---- libiberty

// Longer names libiberty refuses unless it is told not to mind its recursion (DEMANGLE_RECURSION_LIMIT / 2).
// mangled_max bounds that recursion to some MiB of stack at most.
constexpr std::size_t unbounded_above = 1000;

struct Output {
    std::string text;
    std::jmp_buf enough;
};

// The library cannot be told to stop: it is left by a jump, over frames of C that own nothing.  But a piece with
// bytes beyond ASCII stands in memory that the library frees after the call (rust-demangle.c, print_ident):
// there it is let go on to the next piece.
void append(const char *bytes, std::size_t length, void *opaque) {
    auto &output = *static_cast<Output *>(opaque);
    if (output.text.size() + length <= demangled_max)
        output.text.append(bytes, length);
    else if (std::all_of(bytes, bytes + length, [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
        std::longjmp(output.enough, 1); // NOLINT(cert-err52-cpp): C cannot be left by an exception
}

using Demangler = int (*)(const char *, int, demangle_callbackref, void *);

bool demangle_into(Output &output, Demangler demangler, const char *symbol, int options) {
    if (setjmp(output.enough)) // NOLINT(cert-err52-cpp): see append
        return false;
    return demangler(symbol, options, append, &output) != 0;
}

std::string demangle(Demangler demangler, const std::string &symbol, int options) {
    Output output;
    return demangle_into(output, demangler, symbol.c_str(), options) ? std::move(output.text) : std::string();
}

std::string demangle_cpp(std::string_view symbol, int options) {
    if (symbol.size() > unbounded_above)
        options |= DMGL_NO_RECURSE_LIMIT;
    return demangle(cplus_demangle_v3_callback, std::string(symbol), options);
}

// Neither the suffixes that LLVM's optimizers append (".llvm.123") nor clones are part of Rust's manglings.
std::string demangle_rust(std::string_view symbol) {
    return demangle(rust_demangle_callback, std::string(clone_name(symbol).stem), DMGL_NO_OPTS);
}

// ---- demangled text

constexpr std::size_t none = std::string_view::npos;

bool part_of_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || static_cast<unsigned char>(c) >= 0x80;
}

bool operator_stands_at(std::string_view text, std::size_t at) {
    constexpr std::string_view word = "operator";
    return text.substr(at, word.size()) == word && (at == 0 || !part_of_word(text[at - 1])) &&
           (at + word.size() >= text.size() || !part_of_word(text[at + word.size()]));
}

// Length of what follows the word "operator" and belongs to its name; 0: it converts to a type.
std::size_t operator_length(std::string_view rest) {
    static constexpr std::string_view signs[] = {
        "<=>", "->*", "<<=", ">>=", "()", "[]", "->", "<<", ">>", "<=", ">=", "==", "!=",
        "&&",  "||",  "++",  "--",  "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<",
        ">",   "+",   "-",   "*",   "/",  "%",  "^",  "&",  "|",  "~",  "!",  "=",  ","};
    for (const auto sign : signs)
        if (rest.starts_with(sign))
            return sign.size();
    for (const std::string_view word : {" new[]", " delete[]", " new", " delete", " co_await"})
        if (rest.starts_with(word) && (rest.size() == word.size() || !part_of_word(rest[word.size()])))
            return word.size();
    std::size_t length = 0;
    if (rest.starts_with("\"\"")) // a literal's: operator"" _ms
        for (length = 2; length < rest.size() && (rest[length] == ' ' || part_of_word(rest[length]));)
            ++length;
    return length;
}

struct Parentheses {
    std::size_t begin = 0, end = none; // "(…)"
};

// What stands in no brackets.
struct Outline {
    std::vector<Parentheses> groups;
    std::vector<std::size_t> spaces; // before the first operator
    std::size_t operator_at = none;  // the word of the first
    bool closed = true;              // every group is
};

Outline outline(std::string_view text) {
    Outline found;
    std::string awaited; // closing brackets
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == 'o' && operator_stands_at(text, i)) {
            if (awaited.empty() && found.operator_at == none)
                found.operator_at = i;
            constexpr std::size_t word = 8;
            i += word + operator_length(text.substr(i + word)) - 1;
            continue;
        }
        switch (c) {
        case '(':
            if (awaited.empty())
                found.groups.push_back({i, none});
            awaited += ')';
            break;
        case '<':
        case '[':
        case '{':
            awaited += c == '<' ? '>' : c == '[' ? ']' : '}';
            break;
        case '>': // not that of "->" (Rust's function types)
            if (awaited.ends_with('>') && (i == 0 || text[i - 1] != '-'))
                awaited.pop_back();
            break;
        case ')':
        case ']':
        case '}': // a '<' left open within was a comparison
            if (const std::size_t opened = awaited.rfind(c); opened != none)
                awaited.resize(opened);
            if (c == ')' && awaited.empty() && !found.groups.empty() && found.groups.back().end == none)
                found.groups.back().end = i + 1;
            break;
        case ' ':
            if (awaited.empty() && found.operator_at == none)
                found.spaces.push_back(i);
            break;
        default:
            break;
        }
    }
    found.closed = std::ranges::all_of(found.groups, [](const Parentheses &group) { return group.end != none; });
    return found;
}

// Past " const", " &&" and the like.
std::size_t past_qualifiers(std::string_view text, std::size_t at) {
    for (bool more = true; more;) {
        more = false;
        for (const std::string_view qualifier : {" const", " volatile", " &&", " &"})
            if (text.substr(at).starts_with(qualifier)) {
                at += qualifier.size();
                more = true;
            }
    }
    return at;
}

// Whether a group belongs to a name: "(anonymous namespace)::f", Go's "main.(*T).f", the parameters of the
// function that f is local to, "g(int) const::L::f".  Then `past` is where the name goes on.
bool within_name(std::string_view text, const Parentheses &group, std::size_t &past) {
    past = group.end;
    if ((group.begin > 0 && text[group.begin - 1] == '.') || text.substr(group.end).starts_with('.'))
        return true;
    past = past_qualifiers(text, group.end);
    return text.substr(past).starts_with("::");
}

// "void (*f(int))(char)", "int (A::*f())[3]": what is declared, "f(int)"; "" where the group declares nothing.
std::string_view declared_in(std::string_view text, const Outline &found, const Parentheses &group) {
    const bool returns = (group.begin == 0 || text[group.begin - 1] == ' ') && group.begin < found.operator_at;
    if (!returns || group.end >= text.size() || (text[group.end] != '(' && text[group.end] != '['))
        return {};
    std::string_view inner = text.substr(group.begin + 1, group.end - group.begin - 2);
    const std::size_t sign = inner.find_first_of("*&(");
    if (sign == none || inner[sign] == '(' || (sign > 0 && inner[sign - 1] != ':'))
        return {};
    inner.remove_prefix(sign);
    for (bool more = true; more;) {
        more = false;
        for (const std::string_view part : {"*", "&", " ", "const ", "volatile "})
            if (inner.starts_with(part)) {
                inner.remove_prefix(part.size());
                more = true;
            }
    }
    return inner;
}

} // namespace

bool is_mangled(std::string_view symbol) {
    return symbol.starts_with("_Z") || symbol.starts_with("_R");
}

std::string demangled(std::string_view symbol) {
    if (!is_mangled(symbol) || symbol.size() > mangled_max)
        return {};
    std::string name = demangle_rust(symbol);
    if (name.empty() && symbol.starts_with("_Z"))
        name = demangle_cpp(symbol, DMGL_PARAMS);
    return name;
}

std::string demangled_type(std::string_view mangled) {
    return mangled.size() > mangled_max ? std::string() : demangle_cpp(mangled, DMGL_PARAMS | DMGL_TYPES);
}

FunctionName function_name_parts(std::string_view text) {
    text = text.substr(0, text.find(" [clone "));
    const Outline found = outline(text);
    if (found.groups.empty() || !found.closed)
        return {text, {}, {}};
    for (const Parentheses &group : found.groups)
        if (const auto inner = declared_in(text, found, group); !inner.empty())
            return function_name_parts(inner);
    const Parentheses &last = found.groups.back();
    std::size_t past = 0;
    if (text.substr(last.begin, last.end - last.begin) == "(anonymous namespace)" || within_name(text, last, past))
        return {text, {}, {}};
    const std::size_t end = past_qualifiers(text, last.end);
    if (end != text.size())
        return {text, {}, {}}; // not a function's
    // What stands before the last space outside of the name is its return type.
    std::size_t begin = 0;
    for (const std::size_t space : found.spaces) {
        const bool inside = std::ranges::any_of(found.groups, [&](const Parentheses &group) {
            return &group != &last && within_name(text, group, past) && space >= group.begin && space < past;
        });
        if (space < last.begin && !inside)
            begin = space + 1;
    }
    return {text.substr(begin, last.begin - begin), text.substr(last.begin, last.end - last.begin),
            text.substr(last.end)};
}

std::string_view without_rust_hash(std::string_view name) {
    constexpr std::size_t digits = 16, length = digits + 3; // "::h" and the digits
    if (name.size() <= length || name.substr(name.size() - length, 3) != "::h")
        return name;
    const std::string_view hash = name.substr(name.size() - digits);
    const bool hex = std::ranges::all_of(hash, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
    return hex ? name.substr(0, name.size() - length) : name;
}

std::string function_name(std::string_view linkage_name) {
    const std::size_t version = linkage_name.find('@'); // foo@@VERS_1
    const std::string_view symbol = version == 0 ? linkage_name : linkage_name.substr(0, version);
    const auto as_it_is = [](std::string_view name) { return std::string(name.substr(0, linkage_name_max)); };
    if (!is_mangled(symbol))
        return as_it_is(symbol);
    if (symbol.size() > mangled_max)
        return as_it_is(linkage_name);
    std::string name = demangle_rust(symbol);
    if (name.empty() && symbol.starts_with("_Z"))
        name = demangle_cpp(symbol, DMGL_NO_OPTS); // leaves out what is not the name
    if (name.empty())
        return as_it_is(linkage_name);
    name.resize(without_rust_hash(name).size());
    return name;
}

std::string short_function_name(std::string_view name) {
    return std::string(is_mangled(name) ? function_name(name)
                                        : std::string(without_rust_hash(function_name_parts(name).name)));
}

CloneName clone_name(std::string_view symbol) {
    struct Suffix {
        std::string_view word;
        CloneName::Kind kind;
    };
    using enum CloneName::Kind;
    static constexpr Suffix suffixes[] = {{".isra", Entry}, {".constprop", Entry}, {".part", Part},
                                          {".cold", Part},  {".lto_priv", Itself}, {".llvm", Itself}};
    CloneName clone{Itself, symbol, {}};
    for (bool more = true; more;) {
        more = false;
        const std::size_t digits = clone.stem.find_last_not_of("0123456789") + 1;
        const bool numbered = digits < clone.stem.size() && digits > 0 && clone.stem[digits - 1] == '.';
        const std::string_view words = numbered ? clone.stem.substr(0, digits - 1) : clone.stem;
        for (const auto &[word, kind] : suffixes)
            if (words.size() > word.size() && words.ends_with(word) && (numbered || word == ".cold")) {
                clone.stem = words.substr(0, words.size() - word.size());
                clone.kind = std::max(clone.kind, kind);
                more = true;
                break;
            }
    }
    clone.suffix = symbol.substr(clone.stem.size());
    return clone;
}

} // namespace incident::capture
