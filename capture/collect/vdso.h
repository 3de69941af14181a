// The kernel's own shared object (vdso(7)): the same bytes in every 64-bit process of one boot.
#pragma once

#include <string_view>

namespace incident::capture {

// The bytes that are mapped into this process; "" if there are none.
std::string_view own_vdso();

} // namespace incident::capture
