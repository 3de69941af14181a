// How much of a core systemd-coredump has written so far.
#pragma once

#include "capture/collect/collect.h"
#include "capture/core/core_link.h"

#include <cstdint>
#include <optional>

namespace incident::postmortem {

// The bytes in the file that will become the core of this death. nullopt if that is unknown: the file is not begun or
// not visible to this user, or several cores are being written and nothing says which is which.
std::optional<std::uint64_t> core_bytes_so_far(const capture::DeathIdentity &death, const capture::OsRoots &os = {});

} // namespace incident::postmortem
