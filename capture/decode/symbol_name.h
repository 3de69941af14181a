// Turns the names of functions that linkers use into those that people read and write.
//
// A library demangles (libiberty; the FSF permits that the files used are linked into any program).  Names come from
// hostile files, and a name of some hundred bytes can demangle to any length because its substitutions nest, so the
// output is cut off at demangled_max.
#pragma once

#include <string>
#include <string_view>

namespace incident::capture {

inline constexpr std::size_t mangled_max = 4096;        // bytes of a mangled name; longer ones are not demangled
inline constexpr std::size_t demangled_max = 64 * 1024; // bytes it may stand for
inline constexpr std::size_t linkage_name_max = 16384;  // bytes shown of a name as it is

bool is_mangled(std::string_view symbol); // by how it begins

// C++ (Itanium ABI) with types: "ns::f(int) [clone .cold]".  Rust in both manglings, without the hash that
// differs from build to build: "<mycrate::Foo as mycrate::Bar>::f".  "" if it is no mangled name.
std::string demangled(std::string_view symbol);

// "_ZTISt9exception" → "typeinfo for std::exception", "St9exception" → "std::exception"; "" if it is not the name of a
// type.
std::string demangled_type(std::string_view mangled);

// A demangled name taken apart; the parts are views of it.
struct FunctionName {
    std::string_view name;       // qualified, with template arguments: "ns::C::operator()<int>"
    std::string_view parameters; // "(int, char const*)"; "" where none are written
    std::string_view qualifiers; // " const", " &&"
};
FunctionName function_name_parts(std::string_view demangled);

// A linker's name as a backtrace shows it: the qualified name with template arguments, without parameters,
// return type, qualifiers of the function, the suffixes of its clones (".cold", ".constprop.0") and its
// version.  Names that are not mangled stay.
std::string function_name(std::string_view linkage_name);

// The same of a name that a person may have written demangled: "ns::f(int) const" → "ns::f".
std::string short_function_name(std::string_view name);

// "mycrate::handle::h6d239337de68b4ef" → "mycrate::handle": an older Rust name demangled as if it were C++.
std::string_view without_rust_hash(std::string_view name);

// "f.isra.0.cold" → "f" and ".isra.0.cold": what gcc and clang add to the names of copies and pieces they make
// of a function.
struct CloneName {
    enum class Kind {
        Itself, // no suffix, or one that only tells apart functions of one name (.lto_priv.N, .llvm.N)
        Entry,  // a copy specialized for some callers, entered as the function is (.isra.N, .constprop.N)
        Part,   // a piece of it (.part.N, .cold): that it runs is no call of the function
    } kind = Kind::Itself;
    std::string_view stem, suffix;
};
CloneName clone_name(std::string_view symbol);

} // namespace incident::capture
