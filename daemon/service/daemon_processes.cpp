// Processes as they come, run and go, for whom probes are put into them.
#include "daemon/service/daemon.h"

#include "capture/os/process_dir.h"
#include "daemon/os/clocks.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

namespace incident::daemon {

// Which probes go into it follows from what it executes now.
void Daemon::on_started(const rules::ProcessFacts &process) {
    spdlog::debug("started: {} pid {} exe {}", process.comm, process.pid, process.exe);
    latency_->started(process, engine_->rules(), clock_ns(CLOCK_MONOTONIC));
    on_latency();
    const auto entry = recorder_->process(process.pid);
    if (entry && entry->start_boot_ns == process.start_boot_ns)
        heaps_->started(process, entry->exec_ns, engine_->rules());
}

// Processes that run already: one that waits, or only computes, makes no system call the kernel side could tell of.
void Daemon::find_heaps() {
    if (!plan_.heap)
        return;
    const capture::OsRoots os;
    const auto ticks_a_second = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
    const UniqueFd proc(::open(os.proc.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto pids = capture::numbers_in(proc.get(), ".");
    for (const auto pid : pids ? *pids : std::vector<std::uint32_t>{}) {
        const auto process = capture::ProcessDir::open(os, pid);
        const auto stat = process ? process->stat() : Result<capture::ProcStat>(fail(process.error()));
        if (!stat)
            continue; // gone
        const auto entry = recorder_->process(pid);
        const bool known = entry && capture::start_ticks_of(entry->start_boot_ns) == stat->start_ticks;
        const std::uint64_t start_boot_ns =
            known ? entry->start_boot_ns : stat->start_ticks * 1'000'000'000 / ticks_a_second;
        const auto &facts = assembler_->facts().of(pid, start_boot_ns, known ? entry : std::nullopt, stat->comm);
        heaps_->started(facts, known ? entry->exec_ns : 0, engine_->rules());
    }
}

// As far as the recorder knows; of one it has not seen yet, or no longer watches, what /proc says.
bool Daemon::lives(std::uint32_t pid, std::uint64_t start_boot_ns) const {
    const auto ticks = capture::start_ticks_of(start_boot_ns);
    const auto entry = recorder_->process(pid);
    if (entry && capture::start_ticks_of(entry->start_boot_ns) == ticks)
        return !entry->gone_ns;
    const auto process = capture::ProcessDir::open({}, pid);
    const auto stat = process ? process->stat() : Result<capture::ProcStat>(fail(process.error()));
    return stat && stat->start_ticks == ticks;
}

} // namespace incident::daemon
