#include "rules/model/user.h"

#include <algorithm>
#include <string_view>

namespace incident::rules {

std::string outer_unit(const std::string &cgroup) {
    std::string_view rest = cgroup;
    while (!rest.empty()) {
        rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
        const std::string_view name = rest.substr(0, rest.find('/'));
        if (name == "user.slice")
            return {};
        if (!name.ends_with(".slice"))
            return std::string(name);
        rest.remove_prefix(name.size());
    }
    return {};
}

} // namespace incident::rules
