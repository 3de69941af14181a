#include "daemon/os/reserve_stack.h"

#include <cstddef>

namespace incident::daemon {

[[gnu::noinline]] void reserve_stack() {
    constexpr std::size_t needed = 512 * 1024, page = 4096;
    volatile char stack[needed]; // NOLINT(cppcoreguidelines-pro-type-member-init): only touched
    for (std::size_t at = 0; at < needed; at += page)
        stack[at] = 0;
}

} // namespace incident::daemon
