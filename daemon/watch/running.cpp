#include "daemon/watch/running.h"

#include "capture/os/process_dir.h"

#include <fcntl.h>
#include <unistd.h>

namespace incident::daemon {

void each_running(const capture::OsRoots &os, const Recorder &recorder,
                  const std::function<void(const RunningProcess &)> &call) {
    const auto ticks_a_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    const UniqueFd proc(::open(os.proc.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto pids = capture::numbers_in(proc.get(), ".");
    for (const auto pid : pids ? *pids : std::vector<std::uint32_t>{}) {
        const auto dir = capture::ProcessDir::open(os, pid);
        const auto stat = dir ? dir->stat() : Result<capture::ProcStat>(fail(dir.error()));
        if (!stat || stat->memory == 0)
            continue; // gone, or a thread of the kernel
        RunningProcess running{.process = {pid, {stat->start_ticks * 1'000'000'000 / ticks_a_second}},
                               .entry = recorder.process(pid),
                               .comm = stat->comm,
                               .program = capture::program_of(*stat)};
        if (running.entry && capture::process_of(*running.entry).is(*stat))
            running.process = capture::process_of(*running.entry);
        else
            running.entry.reset(); // of another process
        call(running);
    }
}

} // namespace incident::daemon
