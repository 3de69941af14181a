// Finds processes that run already.  One that waits, or only computes, makes no system call at which the kernel side
// could tell of it.
#pragma once

#include "capture/os/os_roots.h"
#include "capture/os/process_ref.h"
#include "capture/os/program.h"
#include "daemon/record/recorder.h"

#include <functional>
#include <optional>
#include <string>

namespace incident::daemon {

struct RunningProcess {
    capture::ProcessRef process;             // to a clock tick where there is no entry
    std::optional<bpf::process_entry> entry; // what the recorder knows of it
    std::string comm;                        // hostile
    capture::Program program;
};

// Calls for each process in /proc that has memory: some 15 µs for each.
void each_running(const capture::OsRoots &os, const Recorder &recorder,
                  const std::function<void(const RunningProcess &)> &call);

} // namespace incident::daemon
