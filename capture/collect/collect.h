// Collects what /proc, /sys and the kernel log say now, as the kernel prints it.  What vanishes first is read first.
// Each collector has a deadline and a limit of bytes.  If one fails, the bundle says so; the bundle itself is never
// lost for it.
#pragma once

#include "capture/os/os_roots.h"
#include "capture/os/process_ref.h"
#include "capture/os/program.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace incident::capture {

// Among what was collected, of a 32-bit process that still had its memory: the bytes of its vdso(7).
inline constexpr const char narrow_vdso_file[] = "process/vdso";

struct CollectorResult {
    std::string name; // "maps"
    bool ok = false;
    std::string error; // why not, or what was cut
    std::uint64_t us = 0;
};

struct Collected {
    std::map<std::string, std::string> files; // bundle path ("process/maps", "host/meminfo") → bytes
    std::vector<CollectorResult> results;
    const std::string *file(const std::string &path) const {
        auto it = files.find(path);
        return it == files.end() ? nullptr : &it->second;
    }
};

struct CollectLimits {
    std::chrono::milliseconds deadline{250}; // for all process collectors together; those of the host have their own
    std::uint64_t file_cap = 4u << 20;       // bytes of a file; a larger one is cut, and error says so
    std::uint32_t fds = 65536;               // descriptors listed at most
    std::uint32_t threads = 65536;
    bool environ = false;
    std::string cgroup;    // where it was when the kernel side looked; "" not known
    std::uint32_t uid = 0; // of the process: reads of it that hang are counted for this user (hanging.h)
    // Whether the end of a file that standard output or error go to is wanted, by its path below the process's own
    // root.  Empty: of none.  It is called on another thread, and owns what it uses.
    std::function<bool(const std::string &path)> wants_log;
};

// Collects process/ of a process that may be dying.  Holds /proc/PID as a directory
// descriptor and checks that it is this process (ProcessRef::is) before and after: what belongs to a reused pid is
// thrown away. Files: maps status limits cgroup fds (JSON lines {fd,target,pos,flags}) smaps_rollup auxv cmdline comms
// (JSON lines {tid,comm}) mountinfo io oom_score_adj stat exe cwd root ns (readlinks), stdout and stderr if
// limits.wants_log, container (JSON: id, runtime, name, image, image_id, pod, pod_id, pod_namespace, from) of a process
// in one, host_paths (JSON lines {path, inode, host}) of those mapped files that lie elsewhere on the host, and beside
// process/: cgroup/* (memory.max, memory.current, memory.events, pids.* of its cgroup, v1
// or v2; process/cgroup itself is /proc/PID/cgroup). Reading runs on a thread of its own: a process whose mmap_lock is
// held hangs its reader. What has not returned by the deadline is left behind and said to be so. A process may execute
// another program while it is read.  Unless `program` is its last one, that is checked after each file, and what is not
// proven to be of that program is thrown away.
void collect_process(const OsRoots &os, const ProcessRef &process, const CollectLimits &limits, Collected &into,
                     const ProgramRef &program = {});

// Collects host/: meminfo pressure/{cpu,io,memory} loadavg vmstat buddyinfo uptime version, and
// kernel_log: the slice of /dev/kmsg of the last `log` seconds (at most file_cap).
void collect_host(const OsRoots &os, std::chrono::seconds log, const CollectLimits &limits, Collected &into);

// What is known of a living process, for matching; strings are empty if not known.
struct ProcessIdentity {
    std::string comm, exe, cgroup, unit, cmdline, container;
    std::uint32_t real_uid = 0, uid = 0; // uid: effective
    std::uint64_t start_ticks = 0;
    Program program; // all of this is of this one
};
// Error: there is no such process (any more), or it executes one program after the other and none could be read whole.
Result<ProcessIdentity> identify(const OsRoots &os, std::uint32_t pid);
// What the process executes now; not known if it has ended.
Program program_of(const OsRoots &os, const ProcessRef &process);

// The cgroup of a process, from the text of its /proc/PID/cgroup (cgroups(7)).  It is that of the v2 hierarchy.  On
// hybrid and v1 hosts all processes are in "/" there, and then it is that of systemd's own v1 hierarchy.  The "
// (deleted)" of a group that was removed is cut off.  "" if the text names none.
std::string cgroup_of_text(std::string_view text);

// The unit of a cgroup path: "/system.slice/foo.service" → "foo.service", and "user@1000.service/app.slice/x.scope" →
// "x.scope", as systemd's cg_path_get_unit does; "" if it is in no unit.
std::string unit_of_cgroup(const std::string &cgroup);

// The GNU build-id (hex) in an ELF file or in its first bytes as mapped; "" if none.  The bytes are hostile, so every
// offset is checked.
std::string build_id_of_file(int fd);
std::string build_id_of_head(const std::uint8_t *bytes, std::size_t length);

} // namespace incident::capture
