// Where in an ELF file calls end without a return: the places through which exceptions,
// longjmps and switches of the stack go in whatever language.  Pure reading; the file is hostile.
#pragma once

#include "capture/os/result.h"
#include "daemon/probe/elf_image.h"
#include "daemon/probe/probe_price.h"
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

// Whether a program with that symbol may load what switches its stacks at any time: CPython has greenlet (gevent), perl
// has Coro.
bool hosts_switching(const ElfSymbol &symbol);

// Why no process that has mapped the file bears a return probe of the kernel's, which keeps return addresses as one
// stack a thread: "switches stacks"; "": no reason known.  Error: not a program or library.
Result<std::string> why_no_return_probes(int fd);

// fd: open for reading, not owned.  Error: not a program or library.
Result<FileExits> find_exits(int fd, const UprobeAbilities &abilities);

} // namespace incident::daemon
