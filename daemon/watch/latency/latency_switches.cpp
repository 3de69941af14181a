// Removes return probes from a process that has mapped code that switches stacks, because they would kill it.
#include "daemon/watch/latency/latency_probes.h"

#include "capture/collect/collectors.h"
#include "daemon/os/clocks.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>

namespace incident::daemon {

std::vector<TargetName> LatencyProbes::with_return_probes() const {
    std::vector<TargetName> names;
    for (const auto &probe : probes_)
        for (const auto &end : probe->ends)
            std::ranges::move(end.with_return_probes(), std::back_inserter(names));
    return names;
}

// Of every probe in the file, for the kernel (until 6.11) lets a return probe of one take the return addresses of all
// that come by, whomever it was put there for (kernel/events/uprobes.c, handler_chain).
void LatencyProbes::look_for_switches(std::uint32_t pid, std::uint64_t now) {
    const auto names = with_return_probes();
    if (names.empty())
        return;
    const auto seen = capture::within<SwitchingFiles::Process>(
        capture::subject_of(tools_.os, pid), mappings_patience,
        [switching = tools_.switching, os = tools_.os, pid, names]() -> Result<SwitchingFiles::Process> {
            return switching->in(os, pid, names);
        });
    if (!seen || seen->why.empty())
        return;
    for (auto &probe : probes_)
        for (std::size_t i = 0; i < probe->ends.size(); ++i)
            for (const auto &file : seen->files) {
                const auto avoided = probe->ends[i].avoid_return_probes(file, seen->why, tools_);
                if (avoided && !*avoided)
                    continue;
                if (!avoided)
                    probe->problem[i] = avoided.error().what;
                attach(*probe, now);
                // What is under way, and what began meanwhile, is neither told as running nor as slow.
                probe->since_ns = std::max(now, clock_ns(CLOCK_MONOTONIC));
                tell_kernel(*probe);
                tell_scanner();
                spdlog::info("{}: {}, so the kernel's return probes have been taken from its functions",
                             name_of(*probe), seen->why);
            }
}

} // namespace incident::daemon
