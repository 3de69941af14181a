// What the machine must have before anything is loaded: each lack is one clear line.
#pragma once

#include "capture/os/result.h"

namespace incident::daemon {

// Effective capabilities CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN), kernel BTF, a
// kernel new enough, x86-64.
Status preflight(const std::string &sys_root = "/sys");

} // namespace incident::daemon
