// Finds units in cgroup paths by systemd's own rules (src/basic/cgroup-util.c, cg_path_get_unit() and
// cg_path_get_user_unit() of v252).  The owner of a container chooses its paths, so what is found is only a label and
// proves nothing.
#include "capture/collect/collect.h"
#include "capture/os/lines.h"
#include "capture/os/path_parts.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace incident::capture {

namespace {

constexpr std::size_t UNIT_NAME_MAX = 256; // its NUL included

// cg_unescape(): names that would collide with the kernel's files stand behind a '_'.
std::string_view unescaped(std::string_view name) {
    return name.starts_with('_') ? name.substr(1) : name;
}

bool valid_unit(std::string_view name, bool instances) {
    static constexpr std::array types{".service", ".socket", ".target", ".device", ".mount", ".automount",
                                      ".swap",    ".timer",  ".path",   ".slice",  ".scope"};
    const std::size_t dot = name.rfind('.');
    if (name.size() >= UNIT_NAME_MAX || dot == std::string_view::npos || dot == 0 ||
        std::ranges::find(types, name.substr(dot)) == types.end())
        return false;
    const std::string_view stem = name.substr(0, dot);
    const std::size_t at = stem.find('@');
    if (at != std::string_view::npos && (at == 0 || at + 1 == stem.size() || !instances))
        return false;
    return std::ranges::all_of(stem, [](unsigned char c) {
        return std::isalnum(c) || std::string_view("@:-_.\\").find(static_cast<char>(c)) != std::string_view::npos;
    });
}

bool is_slice(std::string_view name) {
    return name.size() >= std::string_view("x.slice").size() && name.ends_with(".slice") &&
           valid_unit(unescaped(name), false);
}

std::string_view skip_slices(std::string_view path) {
    for (;;) {
        path = skip_slashes(path);
        const std::string_view first = first_part(path);
        if (!is_slice(first))
            return path;
        path.remove_prefix(first.size());
    }
}

std::string system_unit(std::string_view path) {
    const std::string_view name = unescaped(first_part(skip_slices(path)));
    return valid_unit(name, true) && !name.ends_with(".slice") ? std::string(name) : "";
}

// What follows "user@UID.service" or "session-ID.scope"; false if the path leads to neither.
bool skip_user_prefix(std::string_view &path) {
    path = skip_slices(path);
    const std::string_view name = first_part(path);
    const auto between = [&](std::string_view head, std::string_view tail) {
        return name.size() > head.size() + tail.size() && name.starts_with(head) && name.ends_with(tail) &&
               std::ranges::all_of(name.substr(head.size(), name.size() - head.size() - tail.size()),
                                   [](unsigned char c) { return std::isalnum(c); });
    };
    if (!between("user@", ".service") && !between("session-", ".scope"))
        return false;
    path.remove_prefix(name.size());
    return true;
}

} // namespace

std::string cgroup_of_text(std::string_view text) {
    std::string_view v2, named;
    for (const std::string_view line : lines_of(text)) {
        constexpr std::string_view systemd = ":name=systemd:";
        if (line.starts_with("0::"))
            v2 = line.substr(3);
        else if (const std::size_t at = line.find(systemd); at != std::string_view::npos)
            named = line.substr(at + systemd.size());
    }
    std::string_view group = v2.size() > 1 || named.empty() ? v2 : named;
    if (constexpr std::string_view deleted = " (deleted)"; group.ends_with(deleted)) // kernel/cgroup/cgroup.c
        group.remove_suffix(deleted.size());
    return std::string(group);
}

std::string unit_of_cgroup(const std::string &cgroup) {
    std::string_view below = cgroup;
    if (skip_user_prefix(below))
        if (std::string user = system_unit(below); !user.empty())
            return user;
    return system_unit(cgroup);
}

} // namespace incident::capture
