// Which processes bear no return probe of the kernel's: those that have mapped code that switches stacks, whatever file
// the probed function is in.  The kernel keeps return addresses as one stack a thread and kills what returns otherwise.
// May be asked by several threads; each question reads processes' mappings, which may hang.
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
        std::vector<FileIdentity> files; // of the probed ones, those that it has mapped
    };
    Process in(const capture::OsRoots &os, std::uint32_t pid, const std::vector<TargetName> &probed);
    // Of the first process found that has mapped code of the file and does not bear return probes.
    std::string of_any_with(const capture::OsRoots &os, const TargetName &probed);

private:
    std::string why(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping);

    std::mutex mutex_;
    std::map<FileIdentity, std::string> known_;
};

} // namespace incident::daemon
