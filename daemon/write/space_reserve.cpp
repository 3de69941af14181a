#include "daemon/write/space_reserve.h"

#include "capture/os/dir_at.h"
#include "capture/os/unique_fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace incident::daemon {

namespace {

constexpr const char *reserve_name = ".reserve"; // no bundle's name
constexpr std::chrono::minutes after_an_error{1};
constexpr std::size_t most_entropy = 256; // in one call, getentropy(3)

// The bytes are random, because a file system that compresses or finds duplicates would keep no space for others.
Status fill(int fd, std::uint64_t bytes) {
    std::array<char, 256 * most_entropy> block;
    while (bytes > 0) {
        for (std::size_t at = 0; at < block.size(); at += most_entropy)
            if (::getentropy(block.data() + at, most_entropy) != 0)
                return fail(Error::system("getentropy"));
        const auto part = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, block.size()));
        const ssize_t written = capture::retry([&] { return ::write(fd, block.data(), part); });
        if (written <= 0)
            return fail(Error::system("write the reserve of space"));
        bytes -= static_cast<std::uint64_t>(written);
    }
    return ::fdatasync(fd) == 0 ? Status{} : fail(Error::system("write the reserve of space"));
}

} // namespace

SpaceReserve::SpaceReserve(int directory, std::uint64_t bytes) : directory_(directory), bytes_(bytes) {
    struct stat status {};
    const bool there = ::fstatat(directory_, reserve_name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    held_ = bytes_ != 0 && there && S_ISREG(status.st_mode) && static_cast<std::uint64_t>(status.st_size) == bytes_;
    if (there && !held_) // of another size, or not finished
        (void)::unlinkat(directory_, reserve_name, 0);
}

Status SpaceReserve::hold(std::uint64_t free) {
    const auto now = std::chrono::steady_clock::now();
    if (held_ || bytes_ == 0 || free / ease < bytes_ || now < not_before_)
        return {};
    not_before_ = now + after_an_error;
    const UniqueFd fd(::openat(directory_, reserve_name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd)
        return fail(Error::system("make the reserve of space"));
    if (auto filled = fill(fd.get(), bytes_); !filled) {
        (void)::unlinkat(directory_, reserve_name, 0);
        return filled;
    }
    held_ = true;
    not_before_ = {};
    return {};
}

Status SpaceReserve::give_up() {
    if (::unlinkat(directory_, reserve_name, 0) != 0 && errno != ENOENT)
        return fail(Error::system("give up the reserve of space"));
    held_ = false;
    return {};
}

} // namespace incident::daemon
