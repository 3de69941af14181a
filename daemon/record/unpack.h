// Calls as the kernel side keeps them (bpf/packed.h), read back.
#pragma once

#include "bpf/event.h"
#include "capture/collect/snapshot.h"

#include <vector>

namespace incident::daemon {

// Oldest first.
struct Unpacked {
    std::vector<bpf::syscall_record> calls;
    std::vector<capture::CallAddress> addresses; // of some of them
    std::vector<capture::CallEvents> events;     // likewise
    std::vector<capture::CallPayload> payloads;  // likewise
    std::vector<capture::Request> requests;      // between them
};

// The calls of a segment.  They are as many as it says, or fewer where its words end before: then it is a copy made
// while it was being written.
Unpacked unpack(const bpf::call_segment &segment);

} // namespace incident::daemon
