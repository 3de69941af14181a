// Counts the readers that were left behind in the kernel (see collectors.h), by what they wait for.  Each holds a
// thread and a descriptor or two, so there is a limit; and each user has a limit of her own, because whoever makes
// readers hang (a file system of hers that does not answer, a process with its mmap_lock held) must not use up that of
// the others.
#pragma once

#include "capture/os/os_roots.h"
#include "capture/os/process_ref.h"

#include <cstdint>
#include <map>
#include <mutex>

namespace incident::capture {

// The process that a reader may hang on.  Without a pid: files that the host's rules name, or the host's own /proc.
struct Subject {
    ProcessRef process;
    std::uint32_t uid = 0;
};

// The process with this pid, and its user as /proc/PID/status has it, which waits for nothing.
Subject subject_of(const OsRoots &os, std::uint32_t pid);

class Hanging {
public:
    static constexpr int process_max = 2, user_max = 8, users_max = 64;
    static constexpr int host_max = 8; // of those that hang on no process

    bool full(const Subject &subject) const; // one more would be too many
    int of_user(const Subject &subject) const;
    void add(const Subject &subject);
    void remove(const Subject &subject);

private:
    mutable std::mutex mutex_;
    std::map<ProcessRef, int> of_process_;
    std::map<std::uint32_t, int> of_user_;
    int of_users_ = 0, of_host_ = 0;
};

} // namespace incident::capture
