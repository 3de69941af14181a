// Opens files that processes name, for reading.  No other code does this.
//
// The process chooses its paths and links.  So only regular files are opened (opening a FIFO or a device has effects),
// links never lead out of the process's own root, and a file counts as the mapped one only if that is proven.
//
// Opening can hang as long as the file system does (FUSE, NFS).  Callers that cannot wait open within() a deadline
// (collectors.h).
#pragma once

#include "capture/os/maps.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <string>

namespace incident::capture {

// root: a directory that links and ".." cannot leave, and in which links of procfs are not followed; -1: opens `path`
// as this process sees it.  Error code ENOENT: there is no such file; 0: it is no regular file.
Result<UniqueFd> open_regular(int root, const std::string &path);

// process: descriptor of its directory in procfs (process_dir.h).

// Opens the root of a process, only as a path (O_PATH).
Result<UniqueFd> open_root_of(int process);
// Opens the executable of the process, even if it was deleted.
Result<UniqueFd> open_executable_of(int process);
// Opens the file of this mapping, even if it was deleted or replaced.  process -1: the process has ended, so only the
// file at that path on the host can be it.  Error: there is no file, or it is not proven to be the mapped one.
Result<UniqueFd> open_mapped(int process, const Mapping &mapping);

// Whether a file is the mapped one, by the device and inode in maps.
bool is_mapped_file(int fd, const Mapping &mapping);

} // namespace incident::capture
