// systemd-coredump (v252, coredump.c: save_external_coredump) creates its files with open_tmpfile_linkable(). If the
// file system supports O_TMPFILE, the file has no name and can be seen only among the writer's descriptors. Otherwise
// its name is ".#core.COMM.UID.BOOT.PID.TIMESTAMP" with a random end.
#include "postmortem/core/core_progress.h"

#include "capture/os/dir_at.h"
#include "capture/os/proc_file.h"

#include <algorithm>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace incident::postmortem {

namespace {

constexpr std::string_view writer_comm = "systemd-coredum"; // a comm has 15 bytes
constexpr std::uint64_t comm_max = 64;

std::uint64_t size_of(int dir, const char *path, int flags) {
    struct stat status {};
    const bool regular = fstatat(dir, path, &status, flags) == 0 && S_ISREG(status.st_mode);
    return regular ? static_cast<std::uint64_t>(status.st_size) : 0;
}

// The uncompressed file and its compressed copy are written one after the other: the larger one counts.
std::uint64_t named(const capture::DeathIdentity &death, const std::string &directory) {
    const UniqueFd dir(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const std::string whose = fmt::format(".{}.{}.", death.boot_id, death.process.pid);
    std::uint64_t most = 0;
    if (dir && !death.boot_id.empty())
        (void)capture::for_each_entry(dir.get(), [&](const char *name, unsigned char) {
            if (std::string_view(name).starts_with(".#core.") && std::string_view(name).contains(whose))
                most = std::max(most, size_of(dir.get(), name, AT_SYMLINK_NOFOLLOW));
        });
    return most;
}

bool is_pid(std::string_view name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

// The size of the largest file below the cores' directory that one process has open and that may have no name. Anybody
// can name a process so, but the directory of one that has had root's rights belongs to root.
std::uint64_t unnamed_of(int proc, const std::string &pid, const capture::OsRoots &os) {
    const auto comm = capture::read_proc_file(proc, (pid + "/comm").c_str(), comm_max);
    if (!comm || std::string_view(comm->bytes).substr(0, comm->bytes.find('\n')) != writer_comm)
        return 0;
    const UniqueFd fds(openat(proc, (pid + "/fd").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat whose {};
    std::uint64_t most = 0;
    if (fds && fstat(fds.get(), &whose) == 0 && whose.st_uid == os.coredump_owner)
        (void)capture::for_each_entry(fds.get(), [&](const char *name, unsigned char) {
            const auto target = capture::read_proc_link(fds.get(), name);
            if (target && target->starts_with(os.coredump + "/"))
                most = std::max(most, size_of(fds.get(), name, 0)); // through the link: the open file
        });
    return most;
}

} // namespace

std::optional<std::uint64_t> core_bytes_so_far(const capture::DeathIdentity &death, const capture::OsRoots &os) {
    if (const std::uint64_t bytes = named(death, os.coredump))
        return bytes;
    const UniqueFd proc(open(os.proc.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    std::uint64_t bytes = 0;
    unsigned writers = 0;
    if (proc)
        (void)capture::for_each_entry(proc.get(), [&](const char *name, unsigned char) {
            if (!is_pid(name))
                return;
            if (const std::uint64_t its = unnamed_of(proc.get(), name, os)) {
                bytes = its;
                ++writers;
            }
        });
    return writers == 1 ? std::optional(bytes) : std::nullopt;
}

} // namespace incident::postmortem
