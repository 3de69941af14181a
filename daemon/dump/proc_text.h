// Reads a file of /proc or of a cgroup.
#pragma once

#include "capture/os/proc_file.h"

#include <fcntl.h>

#include <string>

namespace incident::daemon {

// At most 1 MiB of it; "" if it cannot be read.
inline std::string proc_text(const std::string &path) {
    const auto text = capture::read_proc_file(AT_FDCWD, path.c_str(), 1 << 20);
    return text ? text->bytes : std::string();
}

} // namespace incident::daemon
