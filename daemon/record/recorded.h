// What is recorded of processes and threads, as an assembly of an incident reads it: the Recorder, or a test's own.
#pragma once

#include "bpf/event.h"
#include "capture/collect/snapshot.h"
#include "capture/os/process_ref.h"
#include "capture/os/result.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace incident::daemon {

// One counter a place, since the programs were loaded.
using LossCounts = std::array<std::uint64_t, bpf::LOSS_PLACES>;

struct TracepointName {
    std::string category, name;
    auto operator<=>(const TracepointName &) const = default;
};

class Recorded {
public:
    virtual ~Recorded() = default;

    // A slot's rings; nullopt where the slot is not (or no longer) that generation's.
    virtual std::optional<capture::ThreadRings> read(std::uint32_t slot, std::uint64_t generation) const = 0;
    // Slots that hold threads of a process, dead or alive.
    virtual std::vector<std::uint32_t> slots_of(const capture::ProcessRef &process) const = 0;
    virtual bpf::thread_slot header(std::uint32_t slot) const = 0;
    virtual std::uint32_t slots() const = 0;
    virtual void release(std::uint32_t slot) = 0; // a pinned slot: it has been read

    virtual std::optional<bpf::process_entry> process(std::uint32_t tgid) const = 0;
    virtual std::vector<std::uint32_t> processes() const = 0; // tgids with an entry
    virtual void forget_process(std::uint32_t tgid) = 0;

    // Sends an EVENT_MOMENT of the process and an EVENT_THREAD of each of its threads, seen from outside; they are in
    // the ring buffer when it returns.
    virtual Status snapshot(std::uint32_t tgid) = 0;
    // Who has that key is watched or not, and by which conditions: bits of that generation of rules.
    virtual void give_verdict(const bpf::watch_key &key, bool watch, std::uint64_t rules, std::uint32_t generation) = 0;
    // The tracepoint with that number; nullopt: none of ours.
    virtual std::optional<TracepointName> tracepoint(std::uint32_t number) const = 0;

    virtual LossCounts loss_counts() const = 0;
    virtual std::vector<capture::ProbeState> probes() const = 0; // of the programs attached at start

protected:
    Recorded() = default;
    Recorded(Recorded &&) = default;
    Recorded &operator=(Recorded &&) = default;
};

} // namespace incident::daemon
