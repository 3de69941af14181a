#include "capture/os/dir_at.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <algorithm>
#include <memory>

namespace incident::capture {

namespace {

// Deeper than anything that is written here; a bound for what was not.
constexpr int REMOVE_DEPTH = 16;

// For kernels without openat2 (before 5.6) and seccomp filters that refuse it.
UniqueFd open_stepwise(int dir, std::string_view path, int flags, mode_t mode) {
    UniqueFd step;
    for (;;) {
        const std::size_t slash = path.find('/');
        const std::string name(path.substr(0, slash));
        if (name == ".." || name.empty()) {
            errno = name.empty() ? ENOENT : EXDEV;
            return {};
        }
        const int at = step ? step.get() : dir;
        if (slash == std::string_view::npos)
            return UniqueFd(retry([&] { return ::openat(at, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, mode); }));
        UniqueFd next(retry([&] { return ::openat(at, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
        if (!next)
            return {};
        step = std::move(next);
        path.remove_prefix(slash + 1);
    }
}

} // namespace

UniqueFd open_beneath(int dir, std::string_view path, int flags, mode_t mode) {
    open_how how{};
    how.flags = static_cast<__u64>(flags | O_CLOEXEC);
    how.mode = mode;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const std::string name(path);
    // EAGAIN: a rename raced with the walk (openat2(2)); a few tries, then the other way.
    for (int tries = 0; tries < 8; ++tries) {
        const int fd = static_cast<int>(::syscall(SYS_openat2, dir, name.c_str(), &how, sizeof how));
        if (fd >= 0)
            return UniqueFd(fd);
        if (errno == ENOSYS || errno == EPERM)
            break;
        if (errno != EAGAIN && errno != EINTR)
            return {};
    }
    return open_stepwise(dir, path, flags, mode);
}

Result<std::string> read_regular(int dir, std::string_view path, std::uint64_t cap) {
    // O_NONBLOCK: a FIFO put in a file's place must not hold the reader.
    const UniqueFd fd = open_beneath(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd ? read_open_file(fd.get(), path, cap) : fail(Error::system(path));
}

Result<std::string> read_open_file(int fd, std::string_view path, std::uint64_t cap) {
    struct stat st;
    if (::fstat(fd, &st) != 0)
        return fail(Error::system(path));
    if (!S_ISREG(st.st_mode))
        return fail(Error{std::string(path) + ": not a regular file", EINVAL});
    const auto size = static_cast<std::uint64_t>(st.st_size);
    const Error too_long{std::string(path) + ": longer than " + std::to_string(cap) + " bytes", EFBIG};
    if (size > cap)
        return fail(too_long);
    // One byte more than the size: a file that has not grown is done in two reads.
    std::string bytes;
    std::uint64_t used = 0;
    bytes.resize(std::min(size, cap) + 1);
    for (;;) {
        const ssize_t n = retry([&] { return ::read(fd, bytes.data() + used, bytes.size() - used); });
        if (n < 0)
            return fail(Error::system(path));
        if (n == 0)
            break;
        used += static_cast<std::uint64_t>(n);
        if (used > cap)
            return fail(too_long);
        if (used == bytes.size())
            bytes.resize(bytes.size() + 65536);
    }
    bytes.resize(used);
    return bytes;
}

Status write_all(int fd, std::span<const std::uint8_t> bytes) {
    while (!bytes.empty()) {
        const ssize_t n = retry([&] { return ::write(fd, bytes.data(), bytes.size()); });
        if (n < 0)
            return fail(Error::system("write"));
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
    return {};
}

Status read_all_at(int fd, std::uint64_t offset, std::span<char> into) {
    if (offset > static_cast<std::uint64_t>(INT64_MAX) - into.size())
        return fail(Error{"read beyond the end of any file", EOVERFLOW});
    while (!into.empty()) {
        const ssize_t n = retry([&] { return ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset)); });
        if (n < 0)
            return fail(Error::system("read"));
        if (n == 0)
            return fail(Error{"the file ends before", 0});
        into = into.subspan(static_cast<std::size_t>(n));
        offset += static_cast<std::uint64_t>(n);
    }
    return {};
}

Status for_each_entry(int dir, const std::function<void(const char *, unsigned char)> &call) {
    UniqueFd own(retry([&] { return ::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
    if (!own)
        return fail(Error::system("open directory"));
    std::unique_ptr<DIR, int (*)(DIR *)> stream(::fdopendir(own.get()), ::closedir);
    if (!stream)
        return fail(Error::system("read directory"));
    own.release();
    for (;;) {
        errno = 0;
        const dirent *entry = ::readdir(stream.get()); // NOLINT(concurrency-mt-unsafe): the stream is this call's own
        if (!entry)
            break;
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..")
            continue;
        unsigned char type = entry->d_type;
        if (type == DT_UNKNOWN) { // file systems without types in their directories
            struct stat st;
            if (::fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                type = IFTODT(st.st_mode);
        }
        call(entry->d_name, type);
    }
    if (errno != 0)
        return fail(Error::system("read directory"));
    return {};
}

Result<std::vector<DirEntry>> list_dir(int dir) {
    std::vector<DirEntry> entries;
    const Status read = for_each_entry(dir, [&](const char *name, unsigned char type) {
        entries.push_back({name, type});
    });
    if (!read)
        return fail(read.error());
    return entries;
}

namespace {

Status remove_below(int parent, const std::string &name, int depth) {
    if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT)
        return {};
    if (errno != EISDIR && errno != EPERM) // Linux says EISDIR, POSIX EPERM
        return fail(Error::system("remove " + name));
    if (depth == 0)
        return fail(Error{"remove " + name + ": nested too deeply", ELOOP});
    const UniqueFd dir(
        retry([&] { return ::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); }));
    if (!dir)
        return errno == ENOENT ? Status{} : fail(Error::system("remove " + name));
    auto entries = list_dir(dir.get());
    if (!entries)
        return fail(std::move(entries.error()).in("remove " + name));
    for (const DirEntry &entry : *entries)
        if (auto removed = remove_below(dir.get(), entry.name, depth - 1); !removed)
            return fail(std::move(removed.error()).in(name));
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT)
        return fail(Error::system("remove " + name));
    return {};
}

} // namespace

Status remove_tree(int parent, const std::string &name) {
    return remove_below(parent, name, REMOVE_DEPTH);
}

} // namespace incident::capture
