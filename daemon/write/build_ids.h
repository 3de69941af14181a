// Reads the build-ids of the files that a process has mapped.
//
// A file is only read if it is proven to be the mapped one (capture/os/process_files.h), because another program may be
// at the same path in a container.  Reading can hang, because the files belong to the process's owner.  So a thread of
// its own reads them, and files that do not answer before the deadline get no build-id.
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/hanging.h"
#include "capture/os/maps.h"

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace incident::daemon {

class BuildIds {
public:
    static constexpr std::size_t files_max = 4096;
    static constexpr std::chrono::milliseconds longest{5000};

    // Reads the build-ids of the files whose code is mapped.  maps: as collected from the process, which may be dead;
    // exe: the path of its executable.
    static BuildIds read(const capture::OsRoots &os, const capture::Subject &subject, const capture::Maps &maps,
                         const std::string &exe, std::chrono::milliseconds patience = longest);

    // "" if the file has none, or is not proven to be the mapped one.
    std::string of(const std::string &path, std::uint64_t inode) const;
    const std::string &of_executable() const { return exe_; }
    // How the reading went, with the reasons why files could not be read.
    const capture::CollectorResult &result() const { return result_; }

private:
    std::map<std::pair<std::string, std::uint64_t>, std::string> known_;
    std::string exe_;
    capture::CollectorResult result_{"build_ids", true, "", 0};
};

} // namespace incident::daemon
