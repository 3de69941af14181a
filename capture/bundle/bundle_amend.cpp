#include "capture/bundle/bundle.h"
#include "capture/bundle/bundle_name.h"
#include "capture/bundle/bundle_writer.h"
#include "capture/bundle/manifest.h"
#include "capture/os/dir_at.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

namespace incident::capture {

namespace {

using Changes = std::span<const std::pair<std::string, std::string>>;

// The old file under the twin's name as well.  Some file systems know no hard links,
// and fs.protected_hardlinks refuses them to whoever does not own the file.
Status link_or_copy(int from, int to, const ManifestEntry &file) {
    // Not by its path: a directory of a bundle from elsewhere may be a link to anywhere.
    const std::size_t slash = file.path.rfind('/');
    const UniqueFd below =
        open_beneath(from, slash == std::string::npos ? "." : file.path.substr(0, slash), O_PATH | O_DIRECTORY);
    if (!below)
        return fail(Error::system(file.path));
    const char *name = file.path.c_str() + (slash == std::string::npos ? 0 : slash + 1);
    if (::linkat(below.get(), name, to, file.path.c_str(), 0) == 0)
        return {};
    if (errno != EPERM && errno != EOPNOTSUPP && errno != EMLINK && errno != EXDEV)
        return fail(Error::system("link " + file.path));
    auto bytes = read_regular(from, file.path, file.size);
    if (!bytes)
        return fail(std::move(bytes.error()));
    auto copy = write_bundle_file(to, file.path, bytes_of_text(*bytes));
    if (!copy)
        return fail(std::move(copy.error()));
    if (copy->sha256 != file.sha256)
        return fail(file.path + ": changed since it was committed");
    return {};
}

Status make_directories(int dir, const ManifestEntry &file) {
    for (std::size_t slash = file.path.find('/'); slash != std::string::npos; slash = file.path.find('/', slash + 1))
        if (!make_directory_at(dir, file.path.substr(0, slash), directory_mode(dir)) && errno != EEXIST)
            return fail(Error::system("make directory for " + file.path));
    return {};
}

// The twin has only what the old manifest lists (paths it has checked) and the new files.
Status fill(int old, int twin, std::span<const ManifestEntry> listed, Changes files, const timespec &old_time) {
    std::vector<ManifestEntry> entries;
    for (const ManifestEntry &file : listed) {
        if (std::ranges::any_of(files, [&](const auto &other) { return other.first == file.path; }))
            continue;
        if (auto made = make_directories(twin, file); !made)
            return made;
        if (auto linked = link_or_copy(old, twin, file); !linked)
            return linked;
        entries.push_back(file);
    }
    const std::size_t fresh = entries.size();
    for (const auto &[path, bytes] : files) {
        auto entry = write_bundle_file(twin, path, bytes_of_text(bytes));
        if (!entry)
            return fail(std::move(entry.error()));
        entries.push_back(std::move(*entry));
    }
    return seal_bundle(twin, entries, fresh, &old_time);
}

} // namespace

Status IncidentsDir::amend(const std::string &name, Changes files) {
    auto old = bundle(name);
    if (!old)
        return fail(std::move(old.error()));
    auto listed = old->manifest();
    if (!listed)
        return fail(std::move(listed.error()).in("amend"));
    struct stat manifest;
    if (::fstatat(old->fd(), std::string(MANIFEST_NAME).c_str(), &manifest, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(Error::system("amend " + name));

    const std::string twin = std::string(AMEND_PREFIX) + name;
    if (auto cleared = remove_tree(dir_.get(), twin); !cleared)
        return fail(std::move(cleared.error()).in("amend " + name));
    auto dir = make_directory(dir_.get(), twin);
    if (!dir)
        return fail(std::move(dir.error()).in("amend " + name));
    if (auto filled = fill(old->fd(), dir->get(), *listed, files, manifest.st_mtim); !filled) {
        (void)remove_tree(dir_.get(), twin); // else recover() does
        return fail(std::move(filled.error()).in("amend " + name));
    }
    auto replaced = replace_directory(dir_.get(), twin, name);
    if (!replaced) {
        (void)remove_tree(dir_.get(), twin);
        return fail(std::move(replaced.error()).in("amend"));
    }
    if (retry([&] { return ::fsync(dir_.get()); }) != 0)
        return fail(Error::system("amended, but not known to be on disk: flush the directory of " + name));
    if (auto gone = remove_tree(dir_.get(), *replaced); !gone)
        return fail(std::move(gone.error()).in("amended, but the old " + name + " remains"));
    return {};
}

} // namespace incident::capture
