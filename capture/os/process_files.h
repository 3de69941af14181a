// Files that processes name, opened for reading: the one place that does so.
//
// A path or a link of a process is its own to choose.  So nothing but regular files is opened (opening a FIFO
// or a device has effects), links resolve below the process's own root and never out of it, and a file is
// taken for the one that was mapped only where that is shown.
//
// Opening can hang for as long as the file system does (FUSE, NFS): whoever cannot wait opens within() a
// deadline (collectors.h).
#pragma once

#include "capture/os/maps.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <string>

namespace incident::capture {

// root: directory that links and ".." do not lead out of, nor through any link of procfs; -1: `path` as this
// process sees it.  Error code ENOENT: nothing is there; 0: it is no regular file.
Result<UniqueFd> open_regular(int root, const std::string &path);

// process: descriptor of its directory in procfs (process_dir.h).

// The root of a process, as a path only (O_PATH).
Result<UniqueFd> open_root_of(int process);
// What it executes, though that be deleted.
Result<UniqueFd> open_executable_of(int process);
// The file that it has mapped there, though it be deleted or replaced.  process -1: it has ended, and only
// what stands at that path on the host can be the file.  Error: none, or none that is shown to be it.
Result<UniqueFd> open_mapped(int process, const Mapping &mapping);

// Whether a file is the one that was mapped, by what maps shows of it: its device and inode.
bool is_mapped_file(int fd, const Mapping &mapping);

} // namespace incident::capture
