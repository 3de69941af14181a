// How a bundle's directory is filled, flushed and put in place; shared by a new
// bundle (PartialBundle) and the twin of an amended one.
#pragma once

#include "capture/bundle/bundle.h"

namespace incident::capture {

// Who may read incidents/ may read what is in it: its directory's permissions for the group
// (daemon/write/access.h) are those of each bundle, without the right to write; others have none.
mode_t directory_mode(int like); // 0700 or 0750

// Makes at/path with that mode, whatever the umask is; errno as mkdirat's.
bool make_directory_at(int at, const std::string &path, mode_t mode);

// Makes parent/name, readable as parent is, and opens it.
Result<UniqueFd> make_directory(int parent, const std::string &name);

// One file beneath dir, its way to the disk begun.
Result<ManifestEntry> write_bundle_file(int dir, std::string_view path, std::span<const std::uint8_t> bytes);

// Writes MANIFEST and flushes it, files[first_fresh..] and all directories.  After it
// nothing but the rename is missing.  A manifest that is to take another
// one's place gets a later modification time than that one's (see recover()).
Status seal_bundle(int dir, std::span<const ManifestEntry> files, std::size_t first_fresh = 0,
                   const struct timespec *later_than = nullptr);

// twin takes the place of name in one step; returns the name under which the old
// directory now waits for its removal.  File systems without RENAME_EXCHANGE
// (ZFS before 2.2: EINVAL) take two renames; a reader that comes between them finds
// nothing for a moment, and recover() ends what was cut off there.
Result<std::string> replace_directory(int parent, const std::string &twin, const std::string &name,
                                      bool exchange = true);

// Everything wrong with the bundle in this directory: missing, changed, additional
// files, links, a broken manifest.  Empty: whole and true.
Result<std::vector<std::string>> verify_directory(int dir);

} // namespace incident::capture
