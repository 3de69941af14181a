// Which directories below the cgroup root a process's groups are, found by looking,
// never by a distribution's habit: the root itself may be the v2 tree, or hold it as
// "unified" beside a directory for each v1 hierarchy (cgroups(7)).
#include "capture/os/dir_at.h"
#include "capture/os/lines.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <fcntl.h>

#include <array>
#include <optional>

namespace incident::capture {

namespace {

using CgroupFiles = std::vector<std::pair<std::string, std::string>>;

constexpr std::array V2_FILES{"memory.max",          "memory.high",     "memory.current",      "memory.peak",
                              "memory.low",          "memory.swap.max", "memory.swap.current", "memory.events",
                              "memory.events.local", "memory.stat",     "memory.pressure",     "pids.max",
                              "pids.current",        "pids.events",     "cgroup.events"};
constexpr std::array V1_MEMORY{
    "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.max_usage_in_bytes",   "memory.failcnt",
    "memory.oom_control",    "memory.stat",           "memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"};
constexpr std::array V1_PIDS{"pids.max", "pids.current", "pids.events"};

struct Group {
    std::string_view controllers; // "" of v2
    std::string_view path;        // below the hierarchy's root, without the first slash
};

// A line of /proc/PID/cgroup, "4:memory:/a/b"; controllers may hold commas and "name=".
std::optional<Group> parse_line(std::string_view line) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos || second + 1 >= line.size() || line[second + 1] != '/')
        return std::nullopt;
    return Group{line.substr(first + 1, second - first - 1), line.substr(second + 2)};
}

bool has_controller(std::string_view controllers, std::string_view wanted) {
    while (!controllers.empty()) {
        const std::size_t comma = controllers.find(',');
        if (controllers.substr(0, comma) == wanted)
            return true;
        controllers = comma == std::string_view::npos ? "" : controllers.substr(comma + 1);
    }
    return false;
}

// Hierarchy's root below the cgroup root, then the group below it.  A path with ".."
// (a group outside the reader's cgroup namespace) does not open.
UniqueFd open_group(int root, const std::string &hierarchy, std::string_view path) {
    const UniqueFd top = hierarchy.empty()
                             ? UniqueFd(::openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC))
                             : UniqueFd(::openat(root, hierarchy.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!top || path.empty())
        return UniqueFd(top ? ::openat(top.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1);
    return open_beneath(top.get(), path, O_RDONLY | O_DIRECTORY);
}

// Which of them there are depends on kernel, controller and level; and a kernel may have pressure, but not count it.
bool is_absent(const Error &error) {
    return error.code == ENOENT || error.code == EOPNOTSUPP;
}

void add_to(std::string &missing, const std::string &what) {
    missing += missing.empty() ? what : "; " + what;
}

std::size_t read_files(int group, std::span<const char *const> names, std::uint64_t cap, CgroupFiles &files,
                       std::string &missing) {
    std::size_t count = 0;
    for (const char *name : names)
        if (auto text = read_proc_file(group, name, cap)) {
            files.emplace_back(std::string("cgroup/") + name, std::move(text->bytes));
            ++count;
        } else if (!is_absent(text.error())) {
            add_to(missing, text.error().what);
        }
    return count;
}

UniqueFd open_v2(int root, std::string_view path) {
    for (const char *hierarchy : {"", "unified"}) {
        const std::string marker = std::string(hierarchy) + (*hierarchy ? "/" : "") + "cgroup.controllers";
        if (::faccessat(root, marker.c_str(), F_OK, 0) == 0)
            return open_group(root, hierarchy, path);
    }
    errno = ENOENT;
    return {};
}

UniqueFd open_v1(int root, const Group &group, const std::string &controller) {
    // Mounted under all its controllers' names ("cpu,cpuacct") or, often a link, under one.
    UniqueFd dir = open_group(root, std::string(group.controllers), group.path);
    return dir || group.controllers == controller ? std::move(dir) : open_group(root, controller, group.path);
}

} // namespace

std::string collect_cgroup_files(const OsRoots &os, std::string_view proc_cgroup, std::uint64_t cap,
                                 CgroupFiles &files) {
    const UniqueFd root(::open(os.cgroup.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root)
        return Error::system(os.cgroup).what;
    std::string missing;
    const auto note = [&](const Group &group) { add_to(missing, Error::system("/" + std::string(group.path)).what); };
    std::size_t memory_files = 0;
    for (const std::string_view line : lines_of(proc_cgroup)) {
        const auto group = parse_line(line);
        if (!group)
            continue;
        if (group->controllers.empty()) {
            if (const UniqueFd dir = open_v2(root.get(), group->path))
                memory_files += read_files(dir.get(), V2_FILES, cap, files, missing);
            else
                note(*group);
            continue;
        }
        const std::pair<const char *, std::span<const char *const>> wanted[] = {{"memory", V1_MEMORY},
                                                                                {"pids", V1_PIDS}};
        for (const auto &[controller, names] : wanted) {
            if (!has_controller(group->controllers, controller))
                continue;
            if (const UniqueFd dir = open_v1(root.get(), *group, controller))
                memory_files += read_files(dir.get(), names, cap, files, missing);
            else
                note(*group);
        }
    }
    if (memory_files == 0 && missing.empty())
        missing = "no memory or pids controller has this process";
    return missing;
}

} // namespace incident::capture
