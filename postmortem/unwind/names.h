// Shows linker names as a backtrace does.
#pragma once

#include "capture/decode/symbol_name.h"

#include <string>
#include <string_view>

namespace incident::postmortem {

using capture::function_name;
using capture::linkage_name_max;

// "_ZTISt9exception" → "std::exception", "St9exception" → "std::exception"; "" if it is not a type's.
std::string type_name_of_typeinfo(std::string_view linkage_name);

} // namespace incident::postmortem
