// Checks what the machine must have before anything is loaded.  Each missing thing is one clear line.
#pragma once

#include "capture/os/result.h"

namespace incident::daemon {

// Needed are the effective capabilities CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN), kernel BTF, a new enough kernel,
// and x86-64.
Status preflight(const std::string &sys_root = "/sys");

} // namespace incident::daemon
