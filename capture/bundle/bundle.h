// The bundle format on disk, writer and reader together.
//
//   <state>/incidents/                       0700
//     <UTC time>-<rule>-<comm>-<pid>-<short id>/   a committed bundle, 0700, files 0600
//     .partial-<same name>/                  being written; no MANIFEST
//     .amend-<same name>/                    a committed bundle's successor, see amend()
//     .replaced-<same name>/, .removed-<same name>/   on their way out
//     .unreported-<same name>, .pinned-<same name>    marks, empty files
//
// A commit writes and flushes every file, the MANIFEST last, then renames the directory and flushes its parent.  A kill
// at any instruction leaves a whole bundle, or a directory whose name begins with a dot, which recover() removes (or
// finishes, if its MANIFEST is whole).  All paths are opened relative to directory descriptors and no symbolic link is
// followed, because a bundle may come from elsewhere and is hostile input to a reader.
#pragma once

#include "capture/os/instant.h"
#include "capture/os/result.h"
#include "capture/os/unique_fd.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace incident::capture {

// "20261121T150405.123Z-crash-python3-1234-9f3c2a"; comm and rule are reduced to
// [A-Za-z0-9._-] (anything else becomes '_'), never empty, never starting with a dot.
std::string bundle_name(WallTime time, std::string_view rule, std::string_view comm, std::uint32_t pid,
                        std::string_view short_id);

struct ManifestEntry {
    std::string path; // relative, within the bundle
    std::uint64_t size = 0;
    std::string sha256; // 64 hex digits
};

class Bundle;
class PartialBundle;

class IncidentsDir {
public:
    // Opens <state>/incidents; create: makes it (and <state>) 0700 where missing.
    static Result<IncidentsDir> open(const std::string &state, bool create);

    // Opens any other directory that holds bundles, for reading.
    static Result<IncidentsDir> at(const std::string &directory);

    // Names of committed bundles, oldest first (names sort by time).
    Result<std::vector<std::string>> names() const;
    // ID = exact name, unique prefix of a name, PID, short id, or "latest".  If several bundles have the PID, the
    // newest is meant.  An ambiguous prefix is an Error that names the candidates.
    Result<std::string> resolve(std::string_view id) const;
    Result<Bundle> bundle(const std::string &name) const;
    // name: as bundle_name() makes it.  Any other name is refused, because names() would not show it.
    Result<PartialBundle> begin(const std::string &name);
    // Replaces files of a committed bundle in one step.  It makes a twin of hard links and the new files, with its own
    // MANIFEST, exchanges it with the old bundle (renameat2 RENAME_EXCHANGE), and removes the old one.
    Status amend(const std::string &name, std::span<const std::pair<std::string, std::string>> files);
    Status remove(const std::string &name); // EBUSY: it is pinned
    // Marks whether the incident was reported (to the journal and a hook).  The mark outlives the daemon, so that the
    // next one reports what this one could not.
    Status set_reported(const std::string &name, bool reported);
    Result<std::vector<std::string>> unreported() const; // also of bundles that are gone; sorted
    // A pinned bundle is never removed for space.  The mark is on the disk when this returns.
    Status set_pinned(const std::string &name, bool pinned);
    Result<std::vector<std::string>> pinned() const; // sorted
    // Finishes or removes what an interrupted writer left.  Returns one line of text for each.
    Result<std::vector<std::string>> recover();
    int fd() const { return dir_.get(); }
    const std::string &path() const { return path_; }

private:
    Status set_mark(std::string_view prefix, const std::string &name, bool set);
    Result<std::vector<std::string>> marked(std::string_view prefix) const;
    bool has_mark(std::string_view prefix, const std::string &name) const; // true as well if it cannot be told

    UniqueFd dir_;
    std::string path_;
};

// A bundle that is being written.  Its directory is removed unless it is committed.
class PartialBundle {
public:
    PartialBundle(PartialBundle &&) noexcept;
    PartialBundle &operator=(PartialBundle &&) noexcept;
    ~PartialBundle();

    // path: "incident.json", "process/maps", "host/pressure/cpu": up to three components of
    // [A-Za-z0-9._-], none beginning with a dot.  Thread-compatible.
    Status add(std::string_view path, std::span<const std::uint8_t> bytes);
    Status add(std::string_view path, std::string_view text);
    Status commit(); // MANIFEST, flush, rename, flush; after it the object is empty
    const std::string &name() const { return name_; }

private:
    friend class IncidentsDir;
    PartialBundle() = default;
    UniqueFd parent_, dir_;
    std::string name_;
    std::vector<ManifestEntry> files_;
};

class Bundle {
public:
    const std::string &name() const { return name_; }
    int fd() const { return dir_.get(); } // the directory as it was when opened, see amend()
    // Reads a whole file, at most cap bytes (a larger one is an Error).  The bundle may be amended meanwhile: a file
    // that has vanished with the old directory is opened once more under the bundle's name.
    Result<std::string> read(std::string_view path, std::uint64_t cap = 256u << 20) const;
    // Calls line(text) for each line until it returns false, without holding the whole file.  A line of more than 1 MiB
    // is an Error.
    Status lines(std::string_view path, const std::function<bool(std::string_view)> &line) const;
    // The size of a regular file in bytes; nullopt: there is none.
    std::optional<std::uint64_t> size(std::string_view path) const;
    bool has(std::string_view path) const { return size(path).has_value(); }
    Result<std::vector<ManifestEntry>> manifest() const;
    // Lists every problem: a missing or changed file, a file that is not in the manifest, a broken manifest.
    Result<std::vector<std::string>> verify() const;

private:
    friend class IncidentsDir;
    UniqueFd reopened(int than) const;
    UniqueFd open(std::string_view path, int flags) const; // -1 with errno
    UniqueFd parent_, dir_;
    std::string name_;
};

} // namespace incident::capture
