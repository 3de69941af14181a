// Finds units and containers in cgroup paths.  Units follow systemd's own rules (src/basic/cgroup-util.c,
// cg_path_get_unit() and cg_path_get_user_unit() of v252).  The owner of a container chooses its paths, so what is
// found is only a label and proves nothing.
#include "capture/collect/collect.h"
#include "capture/os/lines.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace incident::capture {

namespace {

constexpr std::size_t UNIT_NAME_MAX = 256; // its NUL included
constexpr std::size_t CONTAINER_ID = 64;   // hex digits

std::string_view component(std::string_view path) {
    return path.substr(0, path.find('/'));
}

std::string_view skip_slashes(std::string_view path) {
    return path.substr(std::min(path.find_first_not_of('/'), path.size()));
}

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
        const std::string_view first = component(path);
        if (!is_slice(first))
            return path;
        path.remove_prefix(first.size());
    }
}

std::string system_unit(std::string_view path) {
    const std::string_view name = unescaped(component(skip_slices(path)));
    return valid_unit(name, true) && !name.ends_with(".slice") ? std::string(name) : "";
}

// What follows "user@UID.service" or "session-ID.scope"; false if the path leads to neither.
bool skip_user_prefix(std::string_view &path) {
    path = skip_slices(path);
    const std::string_view name = component(path);
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

bool is_hex(std::string_view text) {
    return std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) || (c >= 'a' && c <= 'f'); });
}

// "\x2d" of a systemd unit name back to '-'.
std::string unit_text(std::string_view name) {
    std::string text;
    for (std::size_t i = 0; i < name.size(); ++i) {
        const auto digit = [&](std::size_t at) { return std::string_view("0123456789abcdef").find(name[at]); };
        if (name.substr(i, 2) == "\\x" && i + 3 < name.size() && is_hex(name.substr(i + 2, 2))) {
            text += static_cast<char>(digit(i + 2) * 16 + digit(i + 3));
            i += 3;
        } else {
            text += name[i];
        }
    }
    return text;
}

// The container one component names; "" if none.  before: the component it lies in.
std::string container_of(std::string_view name, std::string_view before) {
    const auto inside = [&](std::string_view head, std::string_view tail) -> std::string_view {
        if (name.size() <= head.size() + tail.size() || !name.starts_with(head) || !name.ends_with(tail))
            return {};
        return name.substr(head.size(), name.size() - head.size() - tail.size());
    };
    // docker-ID.scope, cri-containerd-ID.scope, crio-ID.scope, libpod-ID.scope,
    // nerdctl-ID.scope; with the cgroupfs driver the bare ID (docker/ID, kubepods/…/ID).
    // conmon is podman's and cri-o's monitor, which stands outside.
    std::string_view stem = name.ends_with(".scope") ? name.substr(0, name.size() - 6) : name;
    if (stem.size() >= CONTAINER_ID && stem.find("conmon") == std::string_view::npos) {
        const std::string_view id = stem.substr(stem.size() - CONTAINER_ID);
        if (is_hex(id) && (stem.size() == CONTAINER_ID || stem[stem.size() - CONTAINER_ID - 1] == '-'))
            return std::string(id);
    }
    if (const std::string_view lxc = inside("lxc.payload.", ""); !lxc.empty())
        return std::string(lxc);
    if (before == "lxc" || before == "lxc.payload") // lxc 3 and older
        return std::string(name);
    // machined's scopes are virtual machines too, but those are named "qemu-N-NAME".
    if (const std::string_view machine = inside("machine-", ".scope");
        !machine.empty() && !machine.starts_with("qemu\\x2d"))
        return unit_text(machine);
    if (const std::string_view machine = inside("systemd-nspawn@", ".service"); !machine.empty())
        return unit_text(machine);
    return "";
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

std::string container_of_cgroup(const std::string &cgroup) {
    std::string found; // the innermost: a container may run containers
    std::string_view before, rest = skip_slashes(cgroup);
    while (!rest.empty()) {
        const std::string_view name = component(rest);
        if (std::string id = container_of(name, before); !id.empty())
            found = std::move(id);
        before = name;
        rest = skip_slashes(rest.substr(name.size()));
    }
    return found;
}

} // namespace incident::capture
