// The kernel side as the daemon sees it: loads and attaches the programs, reads their
// maps, tells them what to watch.  The only file that includes libbpf is recorder.cpp.
#pragma once

#include "bpf/event.h"
#include "capture/result.h"
#include "capture/snapshot.h"
#include "rules/config.h"
#include "rules/engine.h"

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace incident::daemon {

// Bytes of kernel memory the configured maps take at worst.
struct MemoryPlan {
    std::uint64_t rings = 0;     // per-thread headers, syscall records, opens and paths
    std::uint64_t tid_table = 0; // 4 bytes × pid_max
    std::uint64_t processes = 0;
    std::uint64_t events = 0; // ring buffer
    std::uint64_t total() const { return rings + tid_table + processes + events; }
};
MemoryPlan plan_memory(const rules::Config::Record &record, std::uint32_t pid_max);

struct RecorderUse {
    std::uint32_t threads_used = 0, threads_max = 0;
    std::uint32_t processes_max = 0;
    std::uint32_t syscalls_per_thread = 0;
    std::uint64_t memory_bytes = 0;
};

// One counter a place, since the programs were loaded.
using LossCounts = std::array<std::uint64_t, bpf::LOSS_PLACES>;
// What was lost between two readings, in words; only of_capture: only what losing an
// event about a dying process counts, not what each process's own account holds.
std::vector<capture::Loss> describe_losses(const LossCounts &now, const LossCounts &before, bool only_of_capture);

class Recorder {
public:
    // Loads, attaches, starts recording.  stack_bytes: of each captured thread, the most
    // that any rule asks for.  The Error names what the machine lacks.
    static Result<Recorder> start(const rules::Config::Record &record, std::uint32_t stack_bytes);

    // What the rules want: takes effect for each thread at its next syscall.
    void apply(const rules::Engine &engine);
    void give_verdict(const bpf::watch_key &key, bool watch);

    int fd() const; // readable when events wait
    // Calls on_event(bytes) for each waiting event, oldest first.
    Status consume(const std::function<void(std::span<const std::uint8_t>)> &on_event);

    // A slot's rings; nullopt where the slot is not (or no longer) that generation's.
    std::optional<capture::ThreadRings> read(std::uint32_t slot, std::uint64_t generation) const;
    // Slots that hold threads of a process, dead or alive.
    std::vector<std::uint32_t> slots_of(std::uint32_t tgid, std::uint64_t process_start_boot_ns) const;
    bpf::thread_slot header(std::uint32_t slot) const;
    // The daemon has read a pinned slot.
    void release(std::uint32_t slot);

    std::optional<bpf::process_entry> process(std::uint32_t tgid) const;
    std::vector<std::uint32_t> processes() const; // tgids with an entry
    void forget_process(std::uint32_t tgid);

    LossCounts loss_counts() const;
    std::vector<capture::ProbeState> probes() const;
    RecorderUse use() const;

    Recorder(Recorder &&) noexcept;
    Recorder &operator=(Recorder &&) noexcept;
    ~Recorder();

private:
    Recorder();
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace incident::daemon
