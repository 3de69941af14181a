#include "daemon/write/access.h"

#include "capture/os/users.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

namespace incident::daemon {

namespace fs = std::filesystem;

namespace {

constexpr mode_t permissions = 07777;
constexpr gid_t unchanged = static_cast<gid_t>(-1);

// Ownership first: a change of group takes set-group-ID away.  Links are left alone.
Status set(const std::string &path, gid_t gid, mode_t mode) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0)
        return errno == ENOENT ? Status{} : Status{fail(Error::system(path))}; // removed meanwhile
    if (S_ISLNK(status.st_mode))
        return {};
    if ((gid == unchanged || status.st_gid == gid) && (status.st_mode & permissions) == mode)
        return {};
    if (::lchown(path.c_str(), static_cast<uid_t>(-1), gid) != 0 || ::chmod(path.c_str(), mode) != 0)
        return fail(Error::system("[access] group: " + path));
    return {};
}

} // namespace

Status grant_access(const std::string &state, const std::string &group) {
    constexpr mode_t directory = S_ISGID | 0750, file = 0640, passage = 0711;
    const std::string incidents = state + "/incidents";
    struct stat status {};
    if (::lstat(incidents.c_str(), &status) != 0)
        return fail(Error::system(incidents));
    const bool granted = (status.st_mode & permissions) == directory;
    if (group.empty()) {
        if (!granted)
            return {};
        const auto shut = set(state, unchanged, 0700); // and nobody comes to what is in it
        return shut ? set(incidents, 0, 0700) : shut;
    }
    const auto gid = capture::gid_of_group(group);
    if (!gid)
        return fail(Error(gid.error()).in(fmt::format("[access] group = \"{}\"", group)));
    if (!granted || status.st_gid != *gid) {
        std::error_code error;
        for (fs::recursive_directory_iterator entry(incidents, error), end; !error && entry != end;
             entry.increment(error))
            if (auto done = set(entry->path(), *gid, entry->is_directory(error) ? directory : file); !done)
                return done;
        if (error)
            return fail(Error{fmt::format("[access] group: {}: {}", incidents, error.message()), error.value()});
        if (auto done = set(incidents, *gid, directory); !done) // last: it says that the rest is done
            return done;
    }
    // The state directory stays root's: systemd gives all in it back to root where it is another's (StateDirectory=).
    return set(state, unchanged, passage);
}

} // namespace incident::daemon
