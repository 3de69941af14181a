#include "capture/os/users.h"

#include <pwd.h>

#include <vector>

namespace incident::capture {

std::optional<std::uint32_t> uid_of_user(const std::string &name) {
    passwd entry{}, *found = nullptr;
    std::vector<char> buffer(16384);
    if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) || !found)
        return std::nullopt;
    return entry.pw_uid;
}

} // namespace incident::capture
