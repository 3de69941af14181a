#include "capture/os/process_files.h"

#include "capture/os/dir_at.h"
#include "capture/os/proc_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <optional>
#include <system_error>

namespace incident::capture {

namespace {

Error no_regular_file() {
    return Error{"not a regular file", 0};
}

Error last_error() {
    return Error{std::generic_category().message(errno), errno};
}

// Of a descriptor that only stands for a path (O_PATH): that very file, for reading.
Result<UniqueFd> reopen(const UniqueFd &found) {
    struct stat status {};
    if (::fstat(found.get(), &status) != 0)
        return fail(last_error());
    if (!S_ISREG(status.st_mode))
        return fail(no_regular_file());
    const std::string self = fmt::format("/proc/self/fd/{}", found.get());
    UniqueFd file(retry([&] { return ::open(self.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC); }));
    if (!file)
        return fail(last_error());
    return file;
}

// Device and inode of the file as maps shows them of a process that has mapped it: those of the superblock and
// of the inode below (fs/proc/task_mmu.c), which on btrfs and overlayfs are not what stat(2) says.
std::optional<Mapping> as_maps_shows(int fd) {
    constexpr std::size_t length = 4096;
    constexpr std::uint64_t cap = 16u << 20;
    void *const at = ::mmap(nullptr, length, PROT_READ, MAP_PRIVATE, fd, 0); // never touched: it may be truncated
    if (at == MAP_FAILED)
        return std::nullopt;
    const auto text = read_proc_file(AT_FDCWD, "/proc/self/maps", cap);
    ::munmap(at, length);
    const Maps maps = Maps::parse(text ? text->bytes : "");
    const Mapping *own = maps.find(UserAddress(reinterpret_cast<std::uintptr_t>(at)));
    return own ? std::optional(*own) : std::nullopt;
}

} // namespace

bool is_mapped_file(int fd, const Mapping &mapping) {
    struct stat status {};
    if (::fstat(fd, &status) == 0 && status.st_dev == makedev(mapping.major, mapping.minor) &&
        status.st_ino == mapping.inode)
        return true;
    const auto shown = as_maps_shows(fd);
    return shown && shown->major == mapping.major && shown->minor == mapping.minor && shown->inode == mapping.inode;
}

Result<UniqueFd> open_regular(int root, const std::string &path) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = root >= 0 ? RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS : 0;
    const UniqueFd found(static_cast<int>(
        retry([&] { return ::syscall(SYS_openat2, root >= 0 ? root : AT_FDCWD, path.c_str(), &how, sizeof how); })));
    if (!found)
        return fail(last_error());
    return reopen(found);
}

Result<UniqueFd> open_root_of(int process) {
    UniqueFd root(retry([&] { return ::openat(process, "root", O_PATH | O_DIRECTORY | O_CLOEXEC); }));
    if (!root)
        return fail(Error::system("its root"));
    return root;
}

Result<UniqueFd> open_executable_of(int process) {
    const UniqueFd found(retry([&] { return ::openat(process, "exe", O_PATH | O_CLOEXEC); }));
    if (!found)
        return fail(last_error());
    return reopen(found);
}

Result<UniqueFd> open_mapped(int process, const Mapping &mapping) {
    if (process >= 0) { // by the kernel's own link to what is mapped there now
        const std::string link = fmt::format("map_files/{:x}-{:x}", mapping.start.value, mapping.end.value);
        const UniqueFd found(retry([&] { return ::openat(process, link.c_str(), O_PATH | O_CLOEXEC); }));
        if (found) {
            auto file = reopen(found);
            if (file && is_mapped_file(file->get(), mapping))
                return file;
            return file ? fail("another file is mapped there now") : std::move(file);
        }
    }
    // A zombie has a directory, but no root any more.
    const auto root = process >= 0 ? open_root_of(process) : Result<UniqueFd>(UniqueFd());
    auto file = open_regular(root ? root->get() : -1, mapping.path);
    if (file && !is_mapped_file(file->get(), mapping))
        return fail(root && process >= 0 ? "another file stands at its path now"
                                         : "the process has ended, and what stands at this path here is another file");
    return file;
}

} // namespace incident::capture
