// Finds processes that a return probe would kill, because they have mapped code that switches stacks; the probed
// function may be in any file.  The kernel keeps the return addresses of a thread in one stack, and kills a process
// that returns in another order.  Several threads may ask; each question reads the mappings of processes, which may
// hang.
#pragma once

#include "daemon/probe/probe_target.h"

#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace incident::daemon {

class SwitchingFiles {
public:
    static constexpr std::size_t most = 16384; // files remembered

    struct Process {
        std::string why;                 // "FILE switches stacks"; "": no reason known
        std::vector<FileIdentity> files; // the probed files that it has mapped
    };
    Process in(const capture::OsRoots &os, std::uint32_t pid, const std::vector<TargetName> &probed);
    // Why the first process found that has mapped code of the file must not get return probes.
    std::string of_any_with(const capture::OsRoots &os, const TargetName &probed);

private:
    std::string why(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping);

    std::mutex mutex_;
    std::map<FileIdentity, std::string> known_;
};

} // namespace incident::daemon
