// Compares function names that people write with those of a symbol table.  People may write a name mangled, or
// demangled with or without parameters as a backtrace shows it, with a version, or without the parts that differ
// between builds.
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
        Clone, // a copy of it, called in the same way (f.isra.0, f.constprop.0)
        Part,  // a piece of it (f.part.0, f.cold)
    };
    // This is cheap, because it is called for every symbol of a table; version as in ElfSymbol.
    Match matches(std::string_view symbol, std::string_view version, bool default_version) const;

    // How many bytes of mangled names it has demangled so far, which is what a search through a table costs.
    std::uint64_t demangled_bytes() const { return demangled_bytes_; }

    // Whether somebody who wrote this name could mean the symbol.  This is cheap, and serves for the message "there are
    // …".
    bool resembles(std::string_view symbol) const;
    // Whether the symbol has this name, whatever its parameters are: "ns::f(int)" and "ns::f(std::string)".
    bool same_but_for_parameters(std::string_view symbol) const;

    const std::string &base() const { return base_; } // without version
    std::string name() const;                         // without parameters

private:
    bool matches_demangled(std::string_view symbol) const;

    std::string base_, version_;
    bool needs_default_ = false;
    std::string whole_, name_, parameters_; // comparable
    std::string hash_;                      // the hash of an older Rust name, as in the symbol; "": none was given
    std::string identifier_;                // a text that every mangled form of the name holds; "": not known
    mutable std::uint64_t demangled_bytes_ = 0;
};

// The demangled name, or the name itself if it is not mangled.
std::string readable_name(std::string_view symbol);

} // namespace incident::daemon
