// Linker names as a backtrace shows them.
#pragma once

#include <string>
#include <string_view>

namespace incident::postmortem {

inline constexpr std::size_t linkage_name_max = 16384; // bytes; longer ones are shown as they are, cut

// "_ZN2ns1C1fEi" → "ns::C::f": the qualified name with template arguments, without parameters, return
// type, qualifiers of the function and the suffixes of its clones (".cold", ".constprop.0").  Names that
// are not mangled stay.
std::string function_name(std::string_view linkage_name);
// "_ZTISt9exception" → "std::exception", "St9exception" → "std::exception"; "" where it is no type's.
std::string type_name_of_typeinfo(std::string_view linkage_name);

} // namespace incident::postmortem
