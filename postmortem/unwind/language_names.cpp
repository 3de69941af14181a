#include "postmortem/unwind/language_names.h"

#include "capture/decode/symbol_name.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

namespace incident::postmortem {

namespace {

constexpr std::size_t nowhere = std::string_view::npos;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_upper(char c) {
    return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}
bool is_word(char c) {
    return is_digit(c) || is_upper(c) || is_lower(c) || c == '_';
}

std::optional<unsigned> natural(std::string_view digits, int base) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    return error == std::errc() && end == digits.data() + digits.size() && !digits.empty() ? std::optional(value)
                                                                                           : std::nullopt;
}

std::vector<std::string_view> parts_between(std::string_view text, std::string_view separator) {
    std::vector<std::string_view> parts;
    for (std::size_t end; (end = text.find(separator)) != nowhere; text.remove_prefix(end + separator.size()))
        parts.push_back(text.substr(0, end));
    parts.push_back(text);
    return parts;
}

// ---- OCaml: asmcomp/compilenv.ml, make_symbol; asmcomp/x86_proc.ml, string_of_symbol

// "f_12" → "f": what tells apart the functions of one name.  Of flambda's closures the code has a word behind it.
std::string_view without_stamp(std::string_view name) {
    if (name.ends_with("_code"))
        name.remove_suffix(5);
    const std::size_t digits = name.find_last_not_of("0123456789") + 1;
    return digits < name.size() && digits > 1 && name[digits - 1] == '_' ? name.substr(0, digits - 1)
                                                                         : std::string_view();
}

// "deep$27" → "deep'"
std::string without_escapes(std::string_view name) {
    std::string text;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (is_word(name[i])) {
            text += name[i];
            continue;
        }
        const auto code = name[i] == '$' && i + 2 < name.size() ? natural(name.substr(i + 1, 2), 16) : std::nullopt;
        if (!code || *code <= 0x20 || *code >= 0x7f)
            return {};
        text += static_cast<char>(*code);
        i += 2;
    }
    return text;
}

// "Dune__exe__Main" → "Dune.exe.Main"; "" where not each "__" is sure to be a dot.
std::string module_path(const std::vector<std::string_view> &parts) {
    std::string path;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool dunes = i == 1 && parts[0] == "Dune" && parts[1] == "exe" && parts.size() > 2;
        if (parts[i].empty() || !std::ranges::all_of(parts[i], is_word) || (!is_upper(parts[i][0]) && !dunes))
            return {};
        path += (path.empty() ? "" : ".") + std::string(parts[i]);
    }
    return path;
}

// ---- GHC: compiler/GHC/Utils/Encoding.hs (utils/Encoding.hs until 9.0), and CLabel.hs for what stands behind a name

constexpr std::size_t tuple_max = 64; // GHC's largest

// A character for the letter behind 'z' or 'Z'; 0: none.
char escaped(char z, char letter) {
    constexpr std::string_view small = "a&b|c^d$e=g>h#i.l<m-n!p+q'r\\s/t*u_v%zz", capital = "L(R)M[N]C:ZZ";
    const std::string_view table = z == 'z' ? small : capital;
    for (std::size_t i = 0; i + 1 < table.size(); i += 2)
        if (table[i] == letter)
            return table[i + 1];
    return '\0';
}

bool append_utf8(std::string &text, unsigned code) {
    // Controls, which nobody wrote, and what is no character.
    if (code < 0xa0 || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return false;
    const auto tail = [&](unsigned shift) { text += static_cast<char>(0x80 | ((code >> shift) & 0x3f)); };
    if (code < 0x800) {
        text += static_cast<char>(0xc0 | (code >> 6));
    } else if (code < 0x10000) {
        text += static_cast<char>(0xe0 | (code >> 12));
        tail(6);
    } else {
        text += static_cast<char>(0xf0 | (code >> 18));
        tail(12);
        tail(6);
    }
    tail(0);
    return true;
}

// "Z3T" is "(,,)", "Z1H" "(# #)".
bool append_tuple(std::string &text, std::size_t count, char kind) {
    if (count > tuple_max || (kind == 'T' && count == 1) || (kind == 'H' && count == 0))
        return false;
    const std::string commas(count == 0 ? 0 : count - 1, ',');
    text += kind == 'T' ? "(" + commas + ")" : count == 1 ? "(# #)" : "(#" + commas + "#)";
    return true;
}

std::string z_decoded(std::string_view name) {
    std::string text;
    for (std::size_t i = 0; i < name.size(); ++i) {
        if (!is_word(name[i]) || name[i] == '_')
            return {};
        if (name[i] != 'z' && name[i] != 'Z') {
            text += name[i];
            continue;
        }
        const char z = name[i];
        if (++i == name.size())
            return {};
        if (!is_digit(name[i])) {
            const char plain = escaped(z, name[i]);
            if (!plain)
                return {};
            text += plain;
            continue;
        }
        // Hexadecimal begins with a digit of ten, so that no letter of an escape is taken for one.
        const std::size_t end = name.find_first_not_of(z == 'z' ? "0123456789abcdef" : "0123456789", i);
        const auto number = end == nowhere ? std::nullopt : natural(name.substr(i, end - i), z == 'z' ? 16 : 10);
        if (!number || (z == 'z' ? name[end] != 'U' || !append_utf8(text, *number)
                                 : (name[end] != 'T' && name[end] != 'H') || !append_tuple(text, *number, name[end])))
            return {};
        i = end;
    }
    return text;
}

bool is_haskell_module(std::string_view name) {
    if (name == ":Main")
        return true;
    return std::ranges::all_of(parts_between(name, "."), [](std::string_view part) {
        return !part.empty() && is_upper(part[0]) &&
               std::ranges::all_of(part, [](char c) { return is_word(c) || c == '\''; });
    });
}

} // namespace

std::string ocaml_function_name(std::string_view symbol) {
    if (symbol.size() > capture::mangled_max || !symbol.starts_with("caml"))
        return {};
    symbol = without_stamp(symbol.substr(4));
    if (symbol.empty() || !is_upper(symbol[0]))
        return {};
    std::string module, name;
    if (const std::size_t dot = symbol.find('.'); dot != nowhere) {
        const std::string_view unit = symbol.substr(0, dot);
        if (!std::ranges::all_of(unit, is_word))
            return {};
        module = module_path(parts_between(unit, "__"));
        if (module.empty())
            module = unit;
        name = without_escapes(symbol.substr(dot + 1));
    } else {
        // Of "A__b__c" nobody knows whether b is a part of the module's name, and of "A___b" where the name begins.
        auto parts = parts_between(symbol, "__");
        if (parts.size() < 2 || symbol.find("___") != nowhere || !is_upper(parts[parts.size() - 2][0]))
            return {};
        name = without_escapes(parts.back());
        parts.pop_back();
        module = module_path(parts);
    }
    // Functions do not begin with a capital letter, nor with a digit as the constants of a module do.
    if (module.empty() || name.empty() || is_upper(name[0]) || is_digit(name[0]))
        return {};
    return module + "." + name;
}

std::string haskell_function_name(std::string_view symbol) {
    if (symbol.size() > capture::mangled_max)
        return {};
    auto parts = parts_between(symbol, "_");
    constexpr std::string_view suffixes[] = {"info", "closure", "entry", "slow", "fast"};
    if (parts.size() < 3 || std::ranges::find(suffixes, parts.back()) == std::end(suffixes))
        return {};
    parts.pop_back();
    if (parts.size() > 2 && (parts.back() == "con" || parts.back() == "static"))
        parts.pop_back();
    // The program's own modules have no package before them.  A name with more parts is of something within a function.
    if (parts.size() != 2 && parts.size() != 3)
        return {};
    std::string package;
    if (parts.size() == 3) {
        package = z_decoded(parts[0]);
        const bool plain = std::ranges::all_of(
            package, [](char c) { return (is_word(c) && c != '_') || c == '-' || c == '.' || c == '+'; });
        if (package.empty() || !plain)
            return {};
        package += ':';
    }
    const std::string module = z_decoded(parts[parts.size() - 2]), name = z_decoded(parts.back());
    if (!is_haskell_module(module) || name.empty())
        return {};
    return package + module + "." + name;
}

} // namespace incident::postmortem
