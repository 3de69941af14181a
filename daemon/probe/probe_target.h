// Finds the file that BINARY in a probe names, on the host or as a process sees it.
//
// A function that opens or reads a file can hang as long as its file system does, so call it within() a deadline.  Only
// functions that say so never wait.
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

// Identifies the contents of a file.  A deploy that replaces the file changes the inode; one that writes into the file
// changes the times or the size.
struct FileIdentity {
    std::uint64_t device = 0, inode = 0, size = 0;
    std::int64_t modified_ns = 0;
    auto operator<=>(const FileIdentity &) const = default;
    bool same_file(const FileIdentity &other) const { return device == other.device && inode == other.inode; }
};

struct TargetFile {
    // Open for reading.  So the inode that is read is also the one that is probed, whatever happens to the path.
    UniqueFd fd;
    FileIdentity identity;
    std::string path; // as shown to people
};

// Finds a file among the mappings of a process.
struct TargetName {
    FileIdentity identity;
    std::string path;
};

// Opens "/…" as the daemon sees it.  Error: there is no such file, or it is not a regular one.
Result<TargetFile> open_on_host(const std::string &path);

// Opens a path below the root of a process (in a container).  Symbolic links never lead out of this root.
Result<TargetFile> open_in_root_of(const capture::OsRoots &os, std::uint32_t pid, const std::string &path);

// Opens what the process executes, if it was started from `path` and that file has been deleted or replaced since.
// Error: it was not.
Result<TargetFile> open_deleted_executable(const capture::OsRoots &os, std::uint32_t pid, const std::string &path);

// Reads the names that libraries give themselves (DT_SONAME).  Programs are linked with this name, which is mostly a
// symbolic link to a file of another name.  The names are remembered by file.  Several threads may use this.
class Sonames {
public:
    static constexpr std::size_t most = 4096;
    // found: a descriptor of the file (O_PATH).  "": the file has no such name.
    std::string of(int found, const FileIdentity &identity);

private:
    std::mutex mutex_;
    std::map<FileIdentity, std::string> known_;
};

// Opens the library of this bare name ("libz.so.1") whose code the process has mapped.  The name may be that of the
// file or its soname, and the file may have been deleted or replaced since.  Error: the process has none (yet).
Result<TargetFile> open_mapped(const capture::OsRoots &os, std::uint32_t pid, const std::string &name,
                               Sonames &sonames);

// What the process has mapped; empty if it is gone.
capture::Maps mappings_of(const capture::OsRoots &os, std::uint32_t pid);
// Opens exactly the file of a mapping, even if it has been deleted or replaced since.
Result<TargetFile> open_mapped_file(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping);

// Never waits.
Result<FileIdentity> identify_mapped(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping);

// Identifies the file as it is now.  Error: there is none.
Result<FileIdentity> identify_on_host(const std::string &path);
// Never waits: it asks only what the client of the file system already knows.
Result<FileIdentity> identify(int fd);
// What a process executes; never waits.
Result<FileIdentity> identify_executable(const capture::OsRoots &os, std::uint32_t pid);

// Inode of the process's mount namespace; 0: cannot be told.  Never waits.
std::uint64_t mount_namespace(const capture::OsRoots &os, const std::string &pid);

} // namespace incident::daemon
