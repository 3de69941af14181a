#include "capture/bundle/bundle_writer.h"

#include "capture/bundle/bundle_name.h"
#include "capture/bundle/manifest.h"
#include "capture/os/dir_at.h"
#include "capture/os/flush.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdio> // renameat2
#include <set>

namespace incident::capture {

namespace {

std::string_view parent_of(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

Status make_parents(int dir, std::string_view path) {
    for (std::size_t slash = path.find('/'); slash != std::string_view::npos; slash = path.find('/', slash + 1)) {
        const std::string below(path.substr(0, slash));
        const UniqueFd at = below.find('/') == std::string::npos
                                ? UniqueFd(::fcntl(dir, F_DUPFD_CLOEXEC, 0))
                                : open_beneath(dir, parent_of(below), O_PATH | O_DIRECTORY);
        const std::string name = below.substr(parent_of(below).empty() ? 0 : parent_of(below).size() + 1);
        if (!at || (!make_directory_at(at.get(), name, directory_mode(dir)) && errno != EEXIST))
            return fail(Error::system("make directory " + below));
    }
    return {};
}

Result<UniqueFd> create(int dir, std::string_view path) {
    const mode_t mode = directory_mode(dir) & 0660;
    UniqueFd fd = open_beneath(dir, path, O_WRONLY | O_CREAT | O_EXCL, mode);
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 ||
        ((status.st_mode & 0777) != mode && ::fchmod(fd.get(), mode) != 0)) // a strict umask
        return fail(Error::system("create " + std::string(path)));
    return fd;
}

bool later(const timespec &a, const timespec &b) {
    return a.tv_sec != b.tv_sec ? a.tv_sec > b.tv_sec : a.tv_nsec > b.tv_nsec;
}

} // namespace

mode_t directory_mode(int like) {
    struct stat status {};
    const bool group = ::fstat(like, &status) == 0 && (status.st_mode & S_IRGRP);
    return group ? 0750 : 0700;
}

bool make_directory_at(int at, const std::string &path, mode_t mode) {
    if (::mkdirat(at, path.c_str(), mode) != 0)
        return false;
    struct stat status {};
    if (::fstatat(at, path.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    // Not touched without need: chmod(2) takes set-group-ID away from who is not in the group.
    return (status.st_mode & 0777) == mode || ::fchmodat(at, path.c_str(), (status.st_mode & S_ISGID) | mode, 0) == 0;
}

Result<UniqueFd> make_directory(int parent, const std::string &name) {
    if (!make_directory_at(parent, name, directory_mode(parent)))
        return fail(Error::system("make directory " + name));
    UniqueFd dir(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!dir)
        return fail(Error::system("open directory " + name));
    return dir;
}

Result<ManifestEntry> write_bundle_file(int dir, std::string_view path, std::span<const std::uint8_t> bytes) {
    if (!valid_bundle_path(path) || path == MANIFEST_NAME)
        return fail(Error{"not a path of a bundle: " + std::string(path), EINVAL});
    if (auto parents = make_parents(dir, path); !parents)
        return fail(std::move(parents.error()));
    auto fd = create(dir, path);
    if (!fd)
        return fail(std::move(fd.error()));
    if (auto written = write_all(fd->get(), bytes); !written)
        return fail(std::move(written.error()).in(path));
    // Its way to the disk runs beside the rest of the capture.  A hint: it may fail, and it
    // promises nothing (no metadata, no device flush); seal_bundle() sees to that.
    (void)::sync_file_range(fd->get(), 0, 0, SYNC_FILE_RANGE_WRITE);
    Sha256 sum;
    sum.add(bytes);
    ManifestEntry entry{std::string(path), bytes.size(), sum.hex()};
    if (entry.sha256.empty())
        return fail("OpenSSL offers no SHA-256");
    return entry;
}

Status seal_bundle(int dir, std::span<const ManifestEntry> files, std::size_t first_fresh, const timespec *later_than) {
    auto manifest = create(dir, MANIFEST_NAME);
    if (!manifest)
        return fail(std::move(manifest.error()));
    if (auto written = write_all(manifest->get(), bytes_of_text(format_manifest(files))); !written)
        return fail(std::move(written.error()).in(MANIFEST_NAME));
    struct stat st;
    if (later_than && ::fstat(manifest->get(), &st) == 0 && !later(st.st_mtim, *later_than)) {
        // The clock was set back, or stands still within a tick.
        timespec next = *later_than;
        if (++next.tv_nsec == 1'000'000'000)
            next = {next.tv_sec + 1, 0};
        const timespec times[2] = {next, next};
        if (::futimens(manifest->get(), times) != 0)
            return fail(Error::system("set the time of MANIFEST"));
    }
    // MANIFEST is written last and yet flushed with the others, in no particular order: one
    // that reaches the disk before what it lists is not true, its sums say so (recover()).
    std::set<std::string> paths{".", std::string(MANIFEST_NAME)};
    for (const ManifestEntry &file : files)
        for (std::string_view at = parent_of(file.path); !at.empty(); at = parent_of(at))
            paths.emplace(at);
    for (const ManifestEntry &file : files.subspan(first_fresh))
        paths.insert(file.path);
    return flush_all(dir, {paths.begin(), paths.end()});
}

Result<std::string> replace_directory(int parent, const std::string &twin, const std::string &name, bool exchange) {
    if (exchange) {
        if (::renameat2(parent, twin.c_str(), parent, name.c_str(), RENAME_EXCHANGE) == 0)
            return twin;
        if (errno != EINVAL && errno != ENOSYS)
            return fail(Error::system("exchange " + name));
    }
    std::string old = std::string(REPLACED_PREFIX) + name;
    if (auto removed = remove_tree(parent, old); !removed)
        return fail(std::move(removed.error()));
    if (::renameat(parent, name.c_str(), parent, old.c_str()) != 0)
        return fail(Error::system("put aside " + name));
    if (::renameat(parent, twin.c_str(), parent, name.c_str()) != 0) {
        const int code = errno;
        (void)::renameat(parent, old.c_str(), parent, name.c_str());
        return fail(Error::system("replace " + name, code));
    }
    return old;
}

} // namespace incident::capture
