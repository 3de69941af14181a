// Finds the places in an ELF file where calls end without a return: exceptions, longjmps and switches of the stack pass
// through these places in every language.  It only reads; the file is hostile.
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
    FileOffset offset;
    auto operator<=>(const ExitPoint &) const = default;
};

struct FileExits {
    std::vector<ExitPoint> points; // each place once, even if it has several names
    // Why calls may end in this file without being seen; "" if no reason is known.
    std::string hidden;
    // The code switches stacks on its own, for coroutines or fibers.
    bool switches_stacks = false;
};

// Whether a program with this symbol may at any time load code that switches stacks: CPython may load greenlet
// (gevent), perl may load Coro.
bool hosts_switching(const ElfSymbol &symbol);

// Why a return probe would kill a process that has mapped the file: "switches stacks", because the kernel keeps the
// return addresses of a thread in one stack; "" if no reason is known.  Error: not a program or library.
Result<std::string> why_no_return_probes(int fd);

// fd: open for reading, not owned.  Error: not a program or library.
Result<FileExits> find_exits(int fd, const UprobeAbilities &abilities);

} // namespace incident::daemon
