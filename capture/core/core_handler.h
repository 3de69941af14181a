// How systemd-coredump looks on this machine.
#pragma once

#include "capture/core/core_match.h"
#include "capture/os/os_roots.h"

namespace incident::capture {

// uid: of the user systemd-coredump, if it is known already.
CoreHandler core_handler_here(const OsRoots &os, std::optional<std::uint32_t> uid = {});

} // namespace incident::capture
