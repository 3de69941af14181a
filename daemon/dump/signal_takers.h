// Finds what can keep a process from dying of a signal, although the signal has its default action: a debugger, a
// thread that waits for the signal as for a message (sigwait(3)), or something that has stopped the process.
#pragma once

#include "capture/collect/collect.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace incident::daemon {

// Why the signal would not make the process dump core now; "" if nothing is known.  status: text of /proc/PID/status.
std::string taken_otherwise(const capture::OsRoots &os, std::uint32_t pid, std::string_view status, int signal);

} // namespace incident::daemon
