// What an assembly reads of the recorded processes and threads.  The Recorder implements it, and tests have their own.
#pragma once

#include "bpf/event.h"
#include "bpf/tallies.h"
#include "capture/collect/snapshot.h"
#include "capture/os/process_ref.h"
#include "capture/os/result.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace incident::daemon {

// One counter for each place where something can be lost, since the programs were loaded.
using LossCounts = std::array<std::uint64_t, bpf::LOSS_PLACES>;

struct TracepointName {
    std::string category, name;
    auto operator<=>(const TracepointName &) const = default;
};

// Which of the calls that are kept of a thread are wanted.
struct CallsWanted {
    std::size_t before = 0;         // the newest that began until …
    std::uint64_t until_ns = ~0ull; // … then (monotonic), …
    std::size_t after = 0;          // and the oldest that began later; beside these the one in flight
};

class Recorded {
public:
    virtual ~Recorded() = default;

    // The rings of a slot; nullopt if the slot does not (or no longer) belong to this generation.
    virtual std::optional<capture::ThreadRings> read(std::uint32_t slot, std::uint64_t generation,
                                                     const CallsWanted &wanted) const = 0;
    // The slots that hold threads of the process, dead or alive.
    virtual std::vector<std::uint32_t> slots_of(const capture::ProcessRef &process) const = 0;
    virtual bpf::thread_slot header(std::uint32_t slot) const = 0;
    virtual std::uint32_t slots() const = 0;
    virtual void release(std::uint32_t slot) = 0; // gives back a pinned slot that has been read
    // The distinct facts that are remembered of the process, in no order.
    virtual std::vector<bpf::tally> tallies(const capture::ProcessRef &process) const = 0;
    // What the process has submitted to io_uring and is not completed, oldest first.
    virtual std::vector<capture::Request> requests_in_flight(const capture::ProcessRef &process) const = 0;

    virtual std::optional<bpf::process_entry> process(std::uint32_t tgid) const = 0;
    virtual std::vector<std::uint32_t> processes() const = 0; // tgids with an entry
    virtual void forget_process(std::uint32_t tgid) = 0;      // and its kept_death
    // Who it was that died, where its death event found no room; nullopt: it found room, or there was none for this.
    virtual std::optional<bpf::kept_death> kept_death(const capture::ProcessRef &process) const = 0;

    // Sends an EVENT_SNAPSHOT of the process and an EVENT_THREAD of each of its threads, seen from outside; they are in
    // the ring buffer when it returns.
    virtual Status snapshot(std::uint32_t tgid) = 0;
    // Decides whether processes with this key are recorded, and which conditions are about them (bits of this
    // generation of rules).
    virtual void give_decision(const bpf::watch_key &key, bool watch, std::uint64_t rules,
                               std::uint32_t generation) = 0;
    // The tracepoint with this number; nullopt: no rule asks for it.
    virtual std::optional<TracepointName> tracepoint(std::uint32_t number) const = 0;

    virtual LossCounts loss_counts() const = 0;
    virtual std::vector<capture::ProbeState> probes() const = 0; // the programs that were attached at the start

protected:
    Recorded() = default;
    Recorded(Recorded &&) = default;
    Recorded &operator=(Recorded &&) = default;
};

} // namespace incident::daemon
