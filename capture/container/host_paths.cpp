#include "capture/container/host_paths.h"

#include "capture/os/lines.h"
#include "capture/os/number.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <ranges>

namespace incident::capture {

namespace {

constexpr std::size_t answers_max = 64;

// The kernel writes blanks, '\' and '#' as octal (fs/proc_namespace.c, mangle()).
std::string unescaped(std::string_view text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (const auto code = text[i] == '\\' && i + 3 < text.size()
                                  ? whole_number<std::uint8_t>(text.substr(i + 1, 3), 8)
                                  : std::nullopt) {
            plain += static_cast<char>(*code);
            i += 3;
        } else {
            plain += text[i];
        }
    return plain;
}

std::string_view next_field(std::string_view &line) {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view field = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return field;
}

// What of path lies below a directory, with its leading slash; nullopt: nothing.  The directory itself: "".
std::optional<std::string_view> below(std::string_view path, std::string_view directory) {
    if (directory == "/")
        return path.starts_with('/') ? std::optional(path) : std::nullopt;
    if (!path.starts_with(directory))
        return std::nullopt;
    path.remove_prefix(directory.size());
    return path.empty() || path.starts_with('/') ? std::optional(path) : std::nullopt;
}

std::string joined(std::string_view directory, std::string_view rest) {
    while (directory.ends_with('/'))
        directory.remove_suffix(1);
    std::string path(directory);
    path += rest;
    return path.empty() ? "/" : path;
}

// The directories of an overlay, the uppermost first.  ':' parts them, and one in a name stands behind a '\'
// (Documentation/filesystems/overlayfs.rst); since 6.5 each may have an option of its own, "lowerdir+".  A runtime with
// many layers mounts them from their directory, by names relative to it; then upperdir, DIR/ID/diff, tells which it is.
std::vector<std::string> layers_of(std::string_view options) {
    std::vector<std::string> lower, layers;
    std::string upper;
    for (const auto part : std::views::split(options, ',')) {
        const std::string option = unescaped(std::string_view(part.begin(), part.end()));
        const std::size_t equals = option.find('=');
        const std::string key = option.substr(0, equals);
        const std::string value = equals == std::string::npos ? "" : option.substr(equals + 1);
        if (key == "upperdir")
            upper = value;
        if (key != "lowerdir" && key != "lowerdir+")
            continue;
        std::string name;
        for (std::size_t i = 0; i <= value.size(); ++i)
            if (i == value.size() || value[i] == ':') {
                if (!name.empty()) // "::" stands before layers of data only
                    lower.push_back(std::move(name));
                name.clear();
            } else {
                if (value[i] == '\\' && i + 1 < value.size())
                    ++i;
                name += value[i];
            }
    }
    std::string base = upper;
    for (int up = 0; up < 2; ++up)
        base.resize(std::min(base.rfind('/'), base.size()));
    if (!upper.empty())
        layers.push_back(std::move(upper));
    for (std::string &name : lower)
        if (name.starts_with('/'))
            layers.push_back(std::move(name));
        else if (!base.empty())
            layers.push_back(base + "/" + name);
    return layers;
}

// The mount that a path is in: the deepest, and of those at one place the last, which covers the others.
const MountPoint *mount_of(const std::vector<MountPoint> &mounts, std::string_view path) {
    const MountPoint *found = nullptr;
    for (const MountPoint &mount : mounts)
        if (below(path, mount.point) && (!found || mount.point.size() >= found->point.size()))
            found = &mount;
    return found;
}

} // namespace

std::vector<MountPoint> parse_mountinfo(std::string_view text) {
    std::vector<MountPoint> mounts;
    for (std::string_view line : lines_of(text)) {
        MountPoint mount;
        next_field(line), next_field(line); // its id, and that of the mount it is mounted on
        const std::string_view device = next_field(line);
        const std::size_t colon = device.find(':');
        if (colon == std::string_view::npos || !whole_number(device.substr(0, colon), mount.major) ||
            !whole_number(device.substr(colon + 1), mount.minor))
            continue;
        mount.root = unescaped(next_field(line));
        mount.point = unescaped(next_field(line));
        for (bool more = true; more && !line.empty();) // options, and optional fields in any number
            more = next_field(line) != "-";
        mount.type = next_field(line);
        next_field(line);
        mount.options = line;
        if (mount.root.starts_with('/') && mount.point.starts_with('/'))
            mounts.push_back(std::move(mount));
    }
    return mounts;
}

HostPaths::HostPaths(std::vector<MountPoint> process, std::vector<MountPoint> host, std::string root)
    : process_(std::move(process)), host_(std::move(host)), root_(std::move(root)) {}

std::vector<std::string> HostPaths::of(std::string_view path) const {
    std::vector<std::string> answers;
    const auto add = [&](std::string answer) {
        // Whoever opens it may hand it to a shell or a debugger.
        const bool plain = std::ranges::none_of(answer, [](unsigned char c) { return c < ' ' || c == 0x7f; });
        if (plain && answer != path && answers.size() < answers_max &&
            std::ranges::find(answers, answer) == answers.end())
            answers.push_back(std::move(answer));
    };
    if (!path.starts_with('/'))
        return answers;
    if (const MountPoint *mount = mount_of(process_, path)) {
        const std::string inside = joined(mount->root, *below(path, mount->point));
        if (mount->type == "overlay")
            for (const std::string &layer : layers_of(mount->options))
                add(joined(layer, inside));
        for (const MountPoint &same : host_)
            if (same.major == mount->major && same.minor == mount->minor)
                if (const auto rest = below(inside, same.root))
                    add(joined(same.point, *rest));
    }
    // The last, for a container's overlay is mounted there as long as the container runs, and its layers stay.
    if (root_.starts_with('/') && root_ != "/")
        add(joined(root_, path));
    return answers;
}

bool HostPaths::is_on(std::string_view path, unsigned major, unsigned minor) const {
    const MountPoint *mount = mount_of(process_, path);
    return mount && mount->major == major && mount->minor == minor;
}

} // namespace incident::capture
