#include "daemon/probe/switching_files.h"

#include "capture/os/maps.h"
#include "capture/os/process_dir.h"
#include "daemon/probe/exit_points.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>

namespace incident::daemon {

namespace {

std::string_view file_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

bool is_code(const capture::Mapping &mapping) {
    return mapping.is_file() && mapping.execute;
}

// Told by number or name first: an overlay's files have other numbers among the mappings than for stat().
bool is_of(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping, const TargetName &probed) {
    if (!is_code(mapping) ||
        (mapping.inode != probed.identity.inode && file_name(mapping.path) != file_name(probed.path)))
        return false;
    const auto identity = identify_mapped(os, pid, mapping);
    return identity && identity->same_file(probed.identity);
}

} // namespace

std::string SwitchingFiles::why(const capture::OsRoots &os, std::uint32_t pid, const capture::Mapping &mapping) {
    const auto identity = identify_mapped(os, pid, mapping);
    if (!identity)
        return {}; // unmapped meanwhile
    {
        const std::lock_guard lock(mutex_);
        if (const auto known = known_.find(*identity); known != known_.end())
            return known->second;
    }
    const auto file = open_mapped_file(os, pid, mapping);
    std::string reason = file ? why_no_return_probes(file->fd.get()).value_or("") : "";
    const std::lock_guard lock(mutex_);
    if (known_.size() >= most)
        known_.clear();
    return known_.emplace(*identity, std::move(reason)).first->second;
}

SwitchingFiles::Process SwitchingFiles::in(const capture::OsRoots &os, std::uint32_t pid,
                                           const std::vector<TargetName> &probed) {
    Process process;
    const auto maps = mappings_of(os, pid);
    for (const auto &name : probed)
        if (std::ranges::any_of(maps.all(), [&](const auto &mapping) { return is_of(os, pid, mapping, name); }))
            process.files.push_back(name.identity);
    if (process.files.empty())
        return process;
    for (const auto &mapping : maps.all())
        if (is_code(mapping))
            if (const std::string reason = why(os, pid, mapping); !reason.empty()) {
                process.why = fmt::format("a process has mapped {}, which {}", mapping.path, reason);
                break;
            }
    return process;
}

std::string SwitchingFiles::of_any_with(const capture::OsRoots &os, const TargetName &probed) {
    const UniqueFd proc(::open(os.proc.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto pids = capture::numbers_in(proc.get(), ".");
    for (const auto pid : pids ? *pids : std::vector<std::uint32_t>{})
        if (auto process = in(os, pid, {probed}); !process.why.empty())
            return std::move(process.why);
    return {};
}

} // namespace incident::daemon
