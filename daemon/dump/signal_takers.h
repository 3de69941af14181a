// Who or what stands between a signal at its default action and the process dying of it now: a debugger, a thread that
// waits for the signal as for a message (sigwait(3)), and what keeps the process from taking it before it is let go on.
#pragma once

#include "capture/collect/collect.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace incident::daemon {

// status: /proc/PID/status.  Why the signal would not make it dump core now; "" nothing known.
std::string taken_otherwise(const capture::OsRoots &os, std::uint32_t pid, std::string_view status, int signal);

} // namespace incident::daemon
