// Function names as people write them, to be compared with those of a symbol table: mangled; demangled with or
// without parameters, as a backtrace shows them; versioned; without what differs from build to build.
#pragma once

#include "capture/decode/symbol_name.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace incident::daemon {

class WantedName {
public:
    // "f", "f@V", "f@@V", "_ZN2ns1fEi", "ns::f", "ns::f(int, char const*)", "ns::f<int>(int)", "mycrate::handle",
    // "<mycrate::Foo as mycrate::Bar>::f", "mycrate::handle::h6d239337de68b4ef"
    explicit WantedName(std::string_view text);

    enum class Match {
        No,
        Yes,
        Clone, // a copy of it that is entered as it is (f.isra.0, f.constprop.0)
        Part,  // a piece of it (f.part.0, f.cold)
    };
    // Cheap, for every symbol of a table; version as in ElfSymbol.
    Match matches(std::string_view symbol, std::string_view version, bool default_version) const;

    // Bytes of mangled names that had to be demangled for it so far: the price of looking through a table.
    std::uint64_t demangled_bytes() const { return demangled_bytes_; }

    // Whether the symbol could be meant by somebody who wrote this: cheap, for what follows "there are".
    bool resembles(std::string_view symbol) const;
    // Whether it has that name, whatever its parameters: "ns::f(int)" of "ns::f(std::string)".
    bool same_but_for_parameters(std::string_view symbol) const;

    const std::string &base() const { return base_; } // without version
    std::string name() const;                         // without parameters

private:
    bool matches_demangled(std::string_view symbol) const;

    std::string base_, version_;
    bool needs_default_ = false;
    std::string whole_, name_, parameters_; // comparable
    std::string hash_;                      // of an older Rust name, as in the symbol; "" : none is asked for
    std::string identifier_;                // occurs in every mangled form of it; "" : cannot be told
    mutable std::uint64_t demangled_bytes_ = 0;
};

// Demangled where it is mangled.
std::string readable_name(std::string_view symbol);

} // namespace incident::daemon
