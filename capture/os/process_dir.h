// Holds /proc/PID as a directory descriptor.  Such a descriptor always means the same process: after its end every
// lookup fails with ESRCH, even if another process has the pid.
#pragma once

#include "capture/os/os_roots.h"
#include "capture/os/proc_stat.h"
#include "capture/os/program.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <vector>

namespace incident::capture {

class ProcessDir {
public:
    static Result<ProcessDir> open(const OsRoots &os, std::uint32_t pid);

    // The process's own directory.
    int fd() const { return dir_.get(); }
    // The directory that shows its memory, descriptors and links.  It is the same one, or task/TID of a living thread
    // if the first thread has called pthread_exit().
    int live() const { return live_ ? live_.get() : dir_.get(); }

    Result<ProcStat> stat() const;
    // Chooses live().  stat: as just read.
    void find_live_thread(const ProcStat &stat);
    // What the process executes now; not known if it has no memory any more.
    Program program() const;

private:
    UniqueFd dir_, live_;
};

// Numeric names in a directory (tids, descriptors), ascending.
Result<std::vector<std::uint32_t>> numbers_in(int dir, const char *path);

// Reads /proc/PID/cgroup, and those files of the groups named there that tell about
// memory and pids, as "cgroup/<file>" → bytes.  "" or what is missing.
std::string collect_cgroup_files(const OsRoots &os, std::string_view proc_cgroup, std::uint64_t cap,
                                 std::vector<std::pair<std::string, std::string>> &files);

} // namespace incident::capture
