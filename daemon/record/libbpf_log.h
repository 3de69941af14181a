// libbpf's own messages of the current operation.  They are shown only if it fails.
#pragma once

#include "capture/os/result.h"

#include <string>

namespace incident::daemon {

std::string &libbpf_log(); // of this thread
void keep_libbpf_messages();
// An Error with the last lines of what libbpf said, because the verifier's reason is at the end.
Error libbpf_error(std::string_view doing, int code);

} // namespace incident::daemon
