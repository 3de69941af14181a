#include "daemon/write/retention.h"

#include <spdlog/spdlog.h>
#include <sys/statvfs.h>

namespace incident::daemon {

namespace {

std::uint64_t bytes_of(const capture::IncidentsDir &directory, const std::string &name) {
    const auto bundle = directory.bundle(name);
    if (!bundle)
        return 0;
    const auto files = bundle->manifest();
    std::uint64_t sum = 0;
    if (files)
        for (const auto &file : *files)
            sum += file.size;
    return sum;
}

std::uint64_t free_bytes(const capture::IncidentsDir &directory) {
    struct statvfs status {};
    if (::fstatvfs(directory.fd(), &status))
        return ~0ull;
    return static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize;
}

} // namespace

bool Retention::short_of_space(const capture::IncidentsDir &directory) const {
    return free_bytes(directory) < budget_.keep_free;
}

bool Retention::empty(const capture::IncidentsDir &directory) const {
    const auto names = directory.names();
    return !names || names->empty();
}

Status Retention::keep_within(capture::IncidentsDir &directory, const std::string &keep) {
    const auto names = directory.names();
    if (!names)
        return fail(names.error());
    std::map<std::string, std::uint64_t> sizes;
    std::uint64_t total = 0;
    for (const auto &name : *names) {
        const auto known = sizes_.find(name);
        const auto bytes = known != sizes_.end() ? known->second : bytes_of(directory, name);
        sizes.emplace(name, bytes);
        total += bytes;
    }
    std::size_t count = names->size();
    for (const auto &name : *names) { // oldest first
        const bool over = count > budget_.bundles || total > budget_.bytes || free_bytes(directory) < budget_.keep_free;
        if (!over || name == keep)
            break;
        if (auto removed = directory.remove(name); !removed)
            return removed;
        spdlog::info("removed the oldest bundle {}: over the budget", name);
        total -= sizes[name];
        sizes.erase(name);
        --count;
    }
    sizes_ = std::move(sizes);
    return {};
}

} // namespace incident::daemon
