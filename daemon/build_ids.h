// Build-ids of mapped files, read from the file itself and remembered.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace incident::daemon {

class BuildIds {
public:
    explicit BuildIds(std::string root) : root_(std::move(root)) {}
    // "" where the file is not there, is another one than was mapped, or has none.
    // root: the process's own (/proc/PID/root) while it lives, else "".
    std::string of(const std::string &path, std::uint64_t inode);

private:
    std::string root_;
    std::map<std::pair<std::string, std::uint64_t>, std::string> known_;
};

} // namespace incident::daemon
