// Fills the directory of a bundle, flushes it and puts it in place.  New bundles (PartialBundle) and the twins of
// amended ones use it.
#pragma once

#include "capture/bundle/bundle.h"

namespace incident::capture {

// Whoever may read incidents/ may read the bundles in it.  So each bundle has the group permissions of that directory
// (daemon/write/access.h) without the right to write, and others have none.
mode_t directory_mode(int like); // 0700 or 0750

// Makes the directory at/path with this mode, whatever the umask is; errno as mkdirat's.
bool make_directory_at(int at, const std::string &path, mode_t mode);

// Makes the directory parent/name with the permissions of its parent, and opens it.
Result<UniqueFd> make_directory(int parent, const std::string &name);

// Writes one file beneath dir, and starts to bring it to the disk.
Result<ManifestEntry> write_bundle_file(int dir, std::string_view path, std::span<const std::uint8_t> bytes);

// Writes the MANIFEST and flushes it, files[first_fresh..] and all directories.  After this only the rename is missing.
// A manifest that replaces another one gets a later modification time than that one (see recover()).
Status seal_bundle(int dir, std::span<const ManifestEntry> files, std::size_t first_fresh = 0,
                   const struct timespec *later_than = nullptr);

// Puts the twin in the place of name in one step.  Returns the name under which the old directory waits for its
// removal. File systems without RENAME_EXCHANGE (ZFS before 2.2: EINVAL) need two renames; a reader finds nothing
// between them, and recover() finishes if the writer was killed there.
Result<std::string> replace_directory(int parent, const std::string &twin, const std::string &name,
                                      bool exchange = true);

// Lists everything that is wrong with the bundle in this directory: missing, changed or additional files, links, a
// broken manifest.  Empty: the bundle is whole and unchanged.
Result<std::vector<std::string>> verify_directory(int dir);

} // namespace incident::capture
