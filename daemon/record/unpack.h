// Calls as the kernel side keeps them (bpf/packed.h), read back.
#pragma once

#include "bpf/event.h"
#include "capture/collect/snapshot.h"

#include <cstdint>
#include <string>
#include <vector>

namespace incident::daemon {

// Of the path of a call: its beginning, or a piece of what has no room there.
struct PathPiece {
    capture::CallPath path;    // of a rest only its bytes
    unsigned which = 0;        // 0: the beginning; else which rest, from 1 on: they stand before their beginning
    unsigned rests_before = 0; // of a beginning: how many belong to it
};

// Oldest first.
struct Unpacked {
    std::vector<bpf::syscall_record> calls;
    std::vector<PathPiece> paths;                // of some of them; rests may be of one in a later segment
    std::vector<capture::CallAddress> addresses; // likewise
    std::vector<capture::CallEvents> events;     // likewise
    std::vector<capture::CallPayload> payloads;  // likewise
    std::vector<capture::Request> requests;      // between them
};

// The calls of a segment.  They are as many as it says, or fewer where its words end before: then it is a copy made
// while it was being written.
Unpacked unpack(const bpf::call_segment &segment);

// The paths, of which those are all pieces there are, oldest first.  One of whose rests some are missing is cut.
std::vector<capture::CallPath> join_paths(std::vector<PathPiece> pieces);

} // namespace incident::daemon
