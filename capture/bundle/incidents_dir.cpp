#include "capture/bundle/bundle.h"
#include "capture/bundle/bundle_name.h"
#include "capture/bundle/bundle_writer.h"
#include "capture/os/dir_at.h"
#include "capture/os/number.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>

namespace incident::capture {

namespace {

constexpr std::size_t CANDIDATES_NAMED = 8;

Result<std::string> ambiguous(std::string_view id, std::span<const std::string> candidates) {
    std::string text = "\"" + std::string(id) + "\" is ambiguous:";
    for (const std::string &name : candidates.first(std::min(candidates.size(), CANDIDATES_NAMED)))
        text += "\n  " + name;
    if (candidates.size() > CANDIDATES_NAMED)
        text += "\n  and " + std::to_string(candidates.size() - CANDIDATES_NAMED) + " more";
    return fail(Error{std::move(text), 0});
}

Result<UniqueFd> duplicate(int fd) {
    UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!copy)
        return fail(Error::system("duplicate a descriptor"));
    return copy;
}

} // namespace

Result<IncidentsDir> IncidentsDir::open(const std::string &state, bool create) {
    IncidentsDir incidents;
    incidents.path_ = state + "/incidents";
    if (create && ::mkdir(state.c_str(), 0700) != 0 && errno != EEXIST)
        return fail(Error::system("make directory " + state));
    // The state directory is the administrator's word and may be a link; what is in it not.
    const UniqueFd above(retry([&] { return ::open(state.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC); }));
    if (!above)
        return fail(Error::system(state));
    if (create && ::mkdirat(above.get(), "incidents", 0700) != 0 && errno != EEXIST)
        return fail(Error::system("make directory " + incidents.path_));
    incidents.dir_ = UniqueFd(::openat(above.get(), "incidents", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!incidents.dir_)
        return fail(Error::system(incidents.path_));
    return incidents;
}

Result<IncidentsDir> IncidentsDir::at(const std::string &directory) {
    IncidentsDir incidents;
    incidents.path_ = directory;
    incidents.dir_ = UniqueFd(retry([&] { return ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!incidents.dir_)
        return fail(Error::system(directory));
    return incidents;
}

Result<std::vector<std::string>> IncidentsDir::names() const {
    auto entries = list_dir(dir_.get());
    if (!entries)
        return fail(std::move(entries.error()).in(path_));
    std::vector<std::string> names;
    names.reserve(entries->size());
    for (DirEntry &entry : *entries)
        if (entry.type == DT_DIR && parse_bundle_name(entry.name))
            names.push_back(std::move(entry.name));
    std::ranges::sort(names);
    return names;
}

Result<std::string> IncidentsDir::resolve(std::string_view id) const {
    auto all = names();
    if (!all)
        return fail(std::move(all.error()));
    const std::vector<std::string> &names = *all;
    if (names.empty())
        return fail(Error{"no incidents in " + path_, ENOENT});
    if (id == "latest")
        return names.back();
    if (std::ranges::binary_search(names, id))
        return std::string(id);

    if (const auto pid = whole_number<std::uint32_t>(id))
        for (auto name = names.rbegin(); name != names.rend(); ++name)
            if (parse_bundle_name(*name)->pid == pid)
                return *name;

    std::vector<std::string> found;
    for (const std::string &name : names)
        if (!id.empty() && parse_bundle_name(name)->short_id == id)
            found.push_back(name);
    if (found.empty() && !id.empty())
        for (auto name = std::ranges::lower_bound(names, id); name != names.end() && name->starts_with(id); ++name)
            found.push_back(*name);
    if (found.empty())
        return fail(Error{"no incident \"" + std::string(id) + "\" in " + path_, ENOENT});
    return found.size() == 1 ? Result<std::string>(found.front()) : ambiguous(id, found);
}

Result<Bundle> IncidentsDir::bundle(const std::string &name) const {
    if (!parse_bundle_name(name))
        return fail(Error{"not an incident's name: " + name, ENOENT});
    Bundle bundle;
    bundle.name_ = name;
    auto parent = duplicate(dir_.get());
    if (!parent)
        return fail(std::move(parent.error()));
    bundle.parent_ = std::move(*parent);
    bundle.dir_ = UniqueFd(::openat(dir_.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!bundle.dir_)
        return fail(Error::system(path_ + "/" + name));
    return bundle;
}

Result<PartialBundle> IncidentsDir::begin(const std::string &name) {
    if (!parse_bundle_name(name))
        return fail(Error{"not an incident's name: " + name, EINVAL});
    if (::faccessat(dir_.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return fail(Error{"incident " + name + " exists", EEXIST});
    auto parent = duplicate(dir_.get());
    if (!parent)
        return fail(std::move(parent.error()));
    // What an attempt before this one could not remove either.
    if (auto cleared = remove_tree(dir_.get(), std::string(PARTIAL_PREFIX) + name); !cleared)
        return fail(std::move(cleared.error()).in(path_));
    auto dir = make_directory(dir_.get(), std::string(PARTIAL_PREFIX) + name);
    if (!dir)
        return fail(std::move(dir.error()).in(path_));
    PartialBundle partial;
    partial.name_ = name;
    partial.parent_ = std::move(*parent);
    partial.dir_ = std::move(*dir);
    return partial;
}

Status IncidentsDir::set_mark(std::string_view prefix, const std::string &name, bool set) {
    if (!parse_bundle_name(name))
        return fail(Error{"not an incident's name: " + name, EINVAL});
    const std::string mark = std::string(prefix) + name;
    if (!set) {
        if (::unlinkat(dir_.get(), mark.c_str(), 0) != 0 && errno != ENOENT)
            return fail(Error::system(path_ + "/" + mark));
    } else if (!UniqueFd(::openat(dir_.get(), mark.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600))) {
        return fail(Error::system(path_ + "/" + mark));
    }
    return {};
}

bool IncidentsDir::has_mark(std::string_view prefix, const std::string &name) const {
    const std::string mark = std::string(prefix) + name;
    return ::faccessat(dir_.get(), mark.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT;
}

Result<std::vector<std::string>> IncidentsDir::marked(std::string_view prefix) const {
    auto entries = list_dir(dir_.get());
    if (!entries)
        return fail(std::move(entries.error()).in(path_));
    std::vector<std::string> names;
    for (const DirEntry &entry : *entries)
        if (const std::string name = entry.name.starts_with(prefix) ? entry.name.substr(prefix.size()) : std::string();
            parse_bundle_name(name))
            names.push_back(name);
    std::ranges::sort(names);
    return names;
}

Status IncidentsDir::set_reported(const std::string &name, bool reported) {
    return set_mark(UNREPORTED_PREFIX, name, !reported);
}

Result<std::vector<std::string>> IncidentsDir::unreported() const {
    return marked(UNREPORTED_PREFIX);
}

Status IncidentsDir::set_pinned(const std::string &name, bool pinned) {
    if (pinned)
        if (auto there = bundle(name); !there)
            return fail(std::move(there.error()));
    if (auto marked = set_mark(PINNED_PREFIX, name, pinned); !marked)
        return marked;
    // Looked at again: it may have been removed before the mark was there.
    if (pinned && ::faccessat(dir_.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        const int code = errno;
        (void)set_mark(PINNED_PREFIX, name, false);
        return fail(Error::system("incident " + name + " was removed meanwhile", code));
    }
    if (retry([&] { return ::fsync(dir_.get()); }) != 0)
        return fail(Error::system("flush " + path_));
    return {};
}

Result<std::vector<std::string>> IncidentsDir::pinned() const {
    return marked(PINNED_PREFIX);
}

Status IncidentsDir::remove(const std::string &name) {
    if (!parse_bundle_name(name))
        return fail(Error{"not an incident's name: " + name, ENOENT});
    if (has_mark(PINNED_PREFIX, name))
        return fail(Error{"incident " + name + " is pinned", EBUSY});
    // Out of sight in one step, so that nobody meets half a bundle.
    const std::string removed = std::string(REMOVED_PREFIX) + name;
    if (auto cleared = remove_tree(dir_.get(), removed); !cleared)
        return fail(std::move(cleared.error()).in(path_));
    if (::renameat(dir_.get(), name.c_str(), dir_.get(), removed.c_str()) != 0)
        return fail(Error::system("remove " + path_ + "/" + name));
    if (has_mark(PINNED_PREFIX, name)) { // since the look above
        if (::renameat(dir_.get(), removed.c_str(), dir_.get(), name.c_str()) != 0)
            return fail(Error::system("put back " + path_ + "/" + name));
        return fail(Error{"incident " + name + " is pinned", EBUSY});
    }
    if (auto gone = remove_tree(dir_.get(), removed); !gone)
        return fail(std::move(gone.error()).in(path_));
    return {};
}

} // namespace incident::capture
