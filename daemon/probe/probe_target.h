// Which file a probe's BINARY names: on the host, or in the eyes of a process.
//
// What opens or reads a file can hang as long as its file system does: call it within() a deadline.  Only
// what says so never waits.
#pragma once

#include "capture/collect/collect.h"
#include "capture/os/maps.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace incident::daemon {

// What a file is known by.  A deploy that puts another file in its place changes inode; one
// that writes into it changes the times or the size.
struct FileIdentity {
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t modified_ns = 0;
    auto operator<=>(const FileIdentity &) const = default;
    bool same_file(const FileIdentity &other) const { return device == other.device && inode == other.inode; }
};

struct TargetFile {
    UniqueFd fd; // open for reading: what is read and what is probed is the same inode, whatever happens to the path
    FileIdentity identity;
    std::string path; // as the rule's reader would know it
};

// By which a file is found among mappings.
struct TargetName {
    FileIdentity identity;
    std::string path;
};

// "/…" as the daemon sees it.  Error: not there, not a regular file.
Result<TargetFile> open_on_host(const std::string &path);

// In a process's own root (containers); symlinks resolve within it, never out of it.
Result<TargetFile> open_in_root_of(const capture::OsRoots &os, std::uint32_t pid, const std::string &path);

// What the process executes, where it was started from `path` and that has been deleted or
// replaced since.  Error: it was not.
Result<TargetFile> open_deleted_executable(const capture::OsRoots &os, std::uint32_t pid, const std::string &path);

// What libraries call themselves (DT_SONAME: programs are linked with that name, which mostly leads by links to a
// file of another name).  Remembered by file; usable from several threads.
class Sonames {
public:
    static constexpr std::size_t most = 4096;
    // found: descriptor that stands for the file's path (O_PATH).  "" : it has none.
    std::string of(int found, const FileIdentity &identity);

private:
    std::mutex mutex_;
    std::map<FileIdentity, std::string> known_;
};

// The file of which the process has mapped code under that bare name ("libz.so.1"): the file's own name or its
// soname; even if it has been deleted or replaced since.  Error: none (yet).
Result<TargetFile> open_mapped(const capture::OsRoots &os, std::uint32_t pid, const std::string &name,
                               Sonames &sonames);

// What the process has mapped; empty: it is gone.
capture::Maps mappings_of(const capture::OsRoots &os, std::uint32_t pid);
// The very file of a mapping, even if it has been deleted or replaced since.
Result<TargetFile> open_mapped_file(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping);

// Never waits.
Result<FileIdentity> identify_mapped(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping);

// As of now; an Error where nothing is there.
Result<FileIdentity> identify_on_host(const std::string &path);
// Never waits: as the file system's client knows it now.
Result<FileIdentity> identify(int fd);
// What a process executes; never waits.
Result<FileIdentity> identify_executable(const capture::OsRoots &os, std::uint32_t pid);

// Inode of the process's mount namespace; 0: cannot be told.  Never waits.
std::uint64_t mount_namespace(const capture::OsRoots &os, const std::string &pid);

} // namespace incident::daemon
