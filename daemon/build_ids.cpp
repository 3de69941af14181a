#include "daemon/build_ids.h"

#include "capture/collect.h"
#include "capture/unique_fd.h"

#include <fcntl.h>
#include <sys/stat.h>

namespace incident::daemon {

namespace {

std::string read_build_id(const std::string &path, std::uint64_t inode) {
    // O_NONBLOCK: a mapped path may have become a FIFO since
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat status {};
    if (!file || ::fstat(file.get(), &status) || !S_ISREG(status.st_mode) || (inode && status.st_ino != inode))
        return {};
    return capture::build_id_of_file(file.get());
}

} // namespace

std::string BuildIds::of(const std::string &path, std::uint64_t inode) {
    if (path.empty() || path.front() != '/')
        return {};
    auto [entry, fresh] = known_.try_emplace({path, inode});
    if (fresh) {
        if (!root_.empty())
            entry->second = read_build_id(root_ + path, inode);
        if (entry->second.empty())
            entry->second = read_build_id(path, inode);
    }
    return entry->second;
}

} // namespace incident::daemon
