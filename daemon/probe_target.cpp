#include "daemon/probe_target.h"

#include "capture/maps.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>

namespace incident::daemon {

namespace {

// O_NONBLOCK: the path may lead to a FIFO or a device
constexpr int how_to_open = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
constexpr std::streamsize maps_max = 16 << 20; // bytes of /proc/PID/maps looked at

FileIdentity identity_of(const struct stat &status) {
    return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
            status.st_mtim.tv_sec * 1'000'000'000LL + status.st_mtim.tv_nsec};
}

Result<TargetFile> target_of(UniqueFd fd, const std::string &path) {
    if (!fd)
        return fail(Error::system(path));
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0)
        return fail(Error::system(path));
    if (!S_ISREG(status.st_mode))
        return fail(path + ": is not a regular file");
    return TargetFile{std::move(fd), identity_of(status), path};
}

std::string proc_of(const capture::OsRoots &os, std::uint32_t pid, std::string_view what) {
    return fmt::format("{}/{}/{}", os.proc, pid, what);
}

std::string read_maps(const capture::OsRoots &os, std::uint32_t pid) {
    std::ifstream file(proc_of(os, pid, "maps"), std::ios::binary);
    std::string text, part(64 * 1024, '\0');
    while (static_cast<std::streamsize>(text.size()) < maps_max &&
           (file.read(part.data(), static_cast<std::streamsize>(part.size())) || file.gcount() > 0))
        text.append(part, 0, static_cast<std::size_t>(file.gcount()));
    return text;
}

} // namespace

Result<TargetFile> open_on_host(const std::string &path) {
    return target_of(UniqueFd(::open(path.c_str(), how_to_open)), path);
}

Result<TargetFile> open_in_root_of(const capture::OsRoots &os, std::uint32_t pid, const std::string &path) {
    const UniqueFd root(::open(proc_of(os, pid, "root").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root)
        return fail(Error::system("the root of process " + std::to_string(pid)));
    open_how how{};
    how.flags = how_to_open;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    return target_of(UniqueFd(static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof(how)))),
                     path);
}

Result<TargetFile> open_deleted_executable(const capture::OsRoots &os, std::uint32_t pid, const std::string &path) {
    const std::string link = proc_of(os, pid, "exe");
    std::string text(path.size() + 16, '\0');
    const ssize_t length = ::readlink(link.c_str(), text.data(), text.size());
    text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    if (text != path + " (deleted)")
        return fail(path + ": is not what the process executes, or has not been deleted");
    return target_of(UniqueFd(::open(link.c_str(), how_to_open)), path);
}

Result<TargetFile> open_mapped(const capture::OsRoots &os, std::uint32_t pid, const std::string &name) {
    const auto maps = mappings_of(os, pid);
    for (const auto &mapping : maps.all()) {
        if (!mapping.is_file() || !mapping.execute || mapping.path.substr(mapping.path.rfind('/') + 1) != name)
            continue;
        return open_mapped_file(os, pid, mapping);
    }
    return fail(fmt::format("no process it is looked for in has mapped code of '{}'", name));
}

capture::Maps mappings_of(const capture::OsRoots &os, std::uint32_t pid) {
    return capture::Maps::parse(read_maps(os, pid));
}

Result<TargetFile> open_mapped_file(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping) {
    // the kernel's own link to the mapped file: leads there though it be deleted
    const std::string link = fmt::format("map_files/{:x}-{:x}", mapping.start, mapping.end);
    return target_of(UniqueFd(::open(proc_of(os, pid, link).c_str(), how_to_open)), mapping.path);
}

Result<FileIdentity> identify_on_host(const std::string &path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0)
        return fail(Error::system(path));
    return identity_of(status);
}

Result<FileIdentity> identify(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0)
        return fail(Error::system("fstat"));
    return identity_of(status);
}

std::uint64_t mount_namespace(const capture::OsRoots &os, const std::string &pid) {
    struct stat status {};
    return ::stat(fmt::format("{}/{}/ns/mnt", os.proc, pid).c_str(), &status) == 0 ? status.st_ino : 0;
}

} // namespace incident::daemon
