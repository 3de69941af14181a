// How far a core is that systemd-coredump is still writing.
#pragma once

#include "capture/collect/collect.h"
#include "capture/core/core_link.h"

#include <cstdint>
#include <optional>

namespace incident::postmortem {

// Bytes in the file that is to become the core of this death; nullopt where none can be told: it is not
// begun, not visible to this user, or several cores are being written and nothing says which is which.
std::optional<std::uint64_t> core_bytes_so_far(const capture::DeathIdentity &death, const capture::OsRoots &os = {});

} // namespace incident::postmortem
