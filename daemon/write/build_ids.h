// Build-ids of a process's mapped files, read from the files themselves.
//
// A file is only read where it is shown to be the one that was mapped (capture/os/process_files.h): in a container
// another program may stand at the same path as on the host.  The files are its owner's, and may hang: they are
// read on a thread of their own, and what has not answered by the deadline goes without.
#pragma once

#include "capture/collect/collect.h"
#include "capture/os/maps.h"
#include "capture/os/process_ref.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace incident::daemon {

class BuildIds {
public:
    static constexpr std::size_t files_max = 4096;
    static constexpr std::chrono::milliseconds patience{5000};

    // Of the files whose code is mapped.  maps: as collected from the process, whether or not it lives on; exe: the
    // path of what it executed.
    static BuildIds read(const capture::OsRoots &os, const capture::ProcessRef &process, const capture::Maps &maps,
                         const std::string &exe, std::chrono::milliseconds deadline = patience);

    // "" where the file has none, or is not shown to be the one that was mapped.
    std::string of(const std::string &path, std::uint64_t inode) const;
    const std::string &of_executable() const { return exe_; }
    // How that went, with the reason for those files that could not be read.
    const capture::CollectorResult &result() const { return result_; }

private:
    std::map<std::pair<std::string, std::uint64_t>, std::string> known_;
    std::string exe_;
    capture::CollectorResult result_{"build_ids", true, "", 0};
};

} // namespace incident::daemon
