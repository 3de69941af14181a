#include "rules/text/errnos.h"

#include <cerrno>
#include <cstring>
#include <utility>

namespace incident::rules {
namespace {

constexpr std::pair<std::string_view, int> errno_aliases[] = {
    {"EWOULDBLOCK", EWOULDBLOCK}, {"EDEADLOCK", EDEADLOCK}, {"ENOTSUP", ENOTSUP}};

} // namespace

std::optional<int> errno_number(std::string_view name) {
    for (int number = 1; number <= last_errno; ++number)
        if (const char *known = strerrorname_np(number); known != nullptr && name == known)
            return number;
    for (const auto &[alias, number] : errno_aliases)
        if (name == alias)
            return number;
    return std::nullopt;
}

std::string errno_name(int number) {
    const char *name = number > 0 && number <= last_errno ? strerrorname_np(number) : nullptr;
    return name != nullptr ? name : std::to_string(number);
}

const std::vector<std::string> &errno_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> all;
        for (int number = 1; number <= last_errno; ++number)
            if (const char *name = strerrorname_np(number))
                all.emplace_back(name);
        return all;
    }();
    return names;
}

} // namespace incident::rules
