#include "capture/os/users.h"

#include <grp.h>
#include <pwd.h>

#include <system_error>
#include <vector>

namespace incident::capture {

std::optional<std::uint32_t> uid_of_user(const std::string &name) {
    passwd entry{}, *found = nullptr;
    std::vector<char> buffer(16384);
    if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) || !found)
        return std::nullopt;
    return entry.pw_uid;
}

std::string home_of_user(std::uint32_t uid) {
    passwd entry{}, *found = nullptr;
    std::vector<char> buffer(16384);
    if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) || !found || !entry.pw_dir)
        return "";
    return entry.pw_dir;
}

Result<std::uint32_t> gid_of_group(const std::string &name) {
    group entry{}, *found = nullptr;
    std::vector<char> room(16 << 10);
    int error = 0;
    while ((error = ::getgrnam_r(name.c_str(), &entry, room.data(), room.size(), &found)) == ERANGE)
        room.resize(room.size() * 2); // many members
    if (found)
        return found->gr_gid;
    return fail(error ? Error{std::generic_category().message(error), error} : Error{"no such group", ENOENT});
}

} // namespace incident::capture
