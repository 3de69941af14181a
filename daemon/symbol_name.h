// Function names as people write them: mangled, demangled with or without parameters,
// versioned; and those of a symbol table, to be compared with them.
#pragma once

#include <string>
#include <string_view>

namespace incident::daemon {

// Demangled (Itanium C++ ABI), or "" where it is no mangled name or one of absurd length.
std::string demangled(std::string_view symbol);

class WantedName {
public:
    // "f", "f@V", "f@@V", "_ZN2ns1fEi", "ns::f", "ns::f(int, char const*)", "ns::f<int>(int)"
    explicit WantedName(std::string_view text);

    // Cheap, for every symbol of a table; version as in ElfSymbol.
    bool matches(std::string_view symbol, std::string_view version, bool default_version) const;

    const std::string &base() const { return base_; } // without version

private:
    bool matches_demangled(std::string_view symbol) const;

    std::string base_, version_;
    bool needs_default_ = false;
    std::string compact_;    // base without spaces that mean nothing
    std::string identifier_; // occurs in every mangled form of it; "" : cannot be told
    bool has_parameters_ = false;
};

} // namespace incident::daemon
