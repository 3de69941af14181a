#include "daemon/probe/probe_target.h"

#include "capture/os/maps.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"
#include "capture/os/process_files.h"
#include "daemon/probe/elf_soname.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <set>

namespace incident::daemon {

namespace {

constexpr std::uint64_t maps_max = 16 << 20; // bytes of /proc/PID/maps looked at

FileIdentity identity_of(const struct stat &status) {
    return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
            status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec};
}

// What is known of a file without asking its server (AT_STATX_DONT_SYNC).
Result<FileIdentity> identify_at(int directory, const char *path, int flags) {
    struct statx status {};
    if (::statx(directory, path, flags | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &status) != 0)
        return fail(Error::system(*path ? path : "statx"));
    return FileIdentity{makedev(status.stx_dev_major, status.stx_dev_minor), status.stx_ino, status.stx_size,
                        status.stx_mtime.tv_sec * 1'000'000'000LL + status.stx_mtime.tv_nsec};
}

Result<TargetFile> target_of(Result<UniqueFd> fd, const std::string &path) {
    if (!fd)
        return fail(std::move(fd.error()).in(path));
    struct stat status {};
    if (::fstat(fd->get(), &status) != 0)
        return fail(Error::system(path));
    return TargetFile{std::move(*fd), identity_of(status), path};
}

std::string name_of(const std::string &path) {
    return path.substr(path.rfind('/') + 1);
}

// process: its directory in procfs.
capture::Maps mappings_in(int process) {
    const auto text = capture::read_proc_file(process, "maps", maps_max);
    return capture::Maps::parse(text ? text->bytes : "");
}

} // namespace

Result<TargetFile> open_on_host(const std::string &path) {
    return target_of(capture::open_regular(-1, path), path);
}

Result<TargetFile> open_in_root_of(const capture::OsRoots &os, std::uint32_t pid, const std::string &path) {
    const auto process = capture::ProcessDir::open(os, pid);
    if (!process)
        return fail(process.error());
    const auto root = capture::open_root_of(process->fd());
    if (!root)
        return fail(root.error());
    return target_of(capture::open_regular(root->get(), path), path);
}

Result<TargetFile> open_deleted_executable(const capture::OsRoots &os, std::uint32_t pid, const std::string &path) {
    const auto process = capture::ProcessDir::open(os, pid);
    const auto text = process ? capture::read_proc_link(process->fd(), "exe") : fail(process.error());
    if (!text || *text != path + " (deleted)")
        return fail(path + ": is not what the process executes, or has not been deleted");
    return target_of(capture::open_executable_of(process->fd()), path);
}

std::string Sonames::of(int found, const FileIdentity &identity) {
    {
        const std::lock_guard lock(mutex_);
        if (const auto known = known_.find(identity); known != known_.end())
            return known->second;
    }
    const auto file = capture::open_regular(-1, fmt::format("/proc/self/fd/{}", found));
    std::string soname = file ? elf_soname(file->get()) : std::string();
    const std::lock_guard lock(mutex_);
    if (known_.size() >= most)
        known_.clear();
    return known_.emplace(identity, std::move(soname)).first->second;
}

Result<TargetFile> open_mapped(const capture::OsRoots &os, std::uint32_t pid, const std::string &name,
                               Sonames &sonames) {
    const auto process = capture::ProcessDir::open(os, pid);
    if (!process)
        return fail(process.error());
    const auto maps = mappings_in(process->fd());
    for (const auto &mapping : maps.all())
        if (mapping.is_file() && mapping.execute && name_of(mapping.path) == name)
            return target_of(capture::open_mapped(process->fd(), mapping), mapping.path);
    std::set<std::pair<std::string, std::uint64_t>> seen;
    for (const auto &mapping : maps.all()) {
        if (!mapping.is_file() || !mapping.execute || !seen.emplace(mapping.path, mapping.inode).second)
            continue;
        const std::string link = fmt::format("map_files/{:x}-{:x}", mapping.start.value, mapping.end.value);
        const UniqueFd found(::openat(process->fd(), link.c_str(), O_PATH | O_CLOEXEC));
        const auto identity = found ? identify(found.get()) : Result<FileIdentity>(fail(""));
        if (identity && sonames.of(found.get(), *identity) == name)
            return target_of(capture::open_mapped(process->fd(), mapping), mapping.path);
    }
    return fail(fmt::format("no process it is looked for in has mapped code of '{}'", name));
}

capture::Maps mappings_of(const capture::OsRoots &os, std::uint32_t pid) {
    const auto process = capture::ProcessDir::open(os, pid);
    return process ? mappings_in(process->fd()) : capture::Maps();
}

Result<TargetFile> open_mapped_file(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping) {
    const auto process = capture::ProcessDir::open(os, pid);
    if (!process)
        return fail(process.error());
    return target_of(capture::open_mapped(process->fd(), mapping), mapping.path);
}

Result<FileIdentity> identify_mapped(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping) {
    return identify_at(
        AT_FDCWD,
        fmt::format("{}/{}/map_files/{:x}-{:x}", os.proc, pid, mapping.start.value, mapping.end.value).c_str(), 0);
}

Result<FileIdentity> identify_on_host(const std::string &path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return fail(Error::system(path));
    return identity_of(status);
}

Result<FileIdentity> identify(int fd) {
    return identify_at(fd, "", AT_EMPTY_PATH);
}

Result<FileIdentity> identify_executable(const capture::OsRoots &os, std::uint32_t pid) {
    return identify_at(AT_FDCWD, fmt::format("{}/{}/exe", os.proc, pid).c_str(), 0);
}

std::uint64_t mount_namespace(const capture::OsRoots &os, const std::string &pid) {
    struct stat status {};
    return ::stat(fmt::format("{}/{}/ns/mnt", os.proc, pid).c_str(), &status) == 0 ? status.st_ino : 0;
}

} // namespace incident::daemon
