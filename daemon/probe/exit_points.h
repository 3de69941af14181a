// Where in an ELF file calls end without a return: the places through which exceptions,
// longjmps and switches of the stack go in whatever language.  Pure reading; the file is hostile.
#pragma once

#include "capture/os/result.h"
#include "daemon/probe/x86_instruction.h"
#include "daemon/record/recorder.h"

#include <cstdint>
#include <string>
#include <vector>

namespace incident::daemon {

struct ExitPoint {
    Recorder::UprobeRole role = Recorder::UprobeRole::UnwindLands;
    std::uint64_t offset = 0; // in the file, bytes
    auto operator<=>(const ExitPoint &) const = default;
};

struct FileExits {
    std::vector<ExitPoint> points; // each place once, though it have several names
    // Why calls may end here and nobody sees it; "": no reason known.
    std::string hidden;
    // The code switches stacks by itself: coroutines, fibers.
    bool switches_stacks = false;
};

// fd: open for reading, not owned.  Error: not a program or library.
Result<FileExits> find_exits(int fd, const UprobeAbilities &abilities);

} // namespace incident::daemon
