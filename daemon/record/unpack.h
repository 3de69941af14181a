// Calls as the kernel side keeps them (bpf/packed.h), read back.
#pragma once

#include "bpf/event.h"

#include <vector>

namespace incident::daemon {

// The calls of a segment, oldest first.  They are as many as it says, or fewer where its words end before: then it is a
// copy made while it was being written.
std::vector<bpf::syscall_record> unpack(const bpf::call_segment &segment);

} // namespace incident::daemon
