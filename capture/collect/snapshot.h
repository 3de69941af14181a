// The snapshot of one incident, as plain data.  The daemon fills it in (daemon/), and the rest of capture/ turns it
// into a bundle.  The structs of the kernel side stay as they came (bpf/event.h), so that a test can make one by hand
// and nothing is decoded twice.
#pragma once

#include "bpf/event.h"
#include "bpf/requests.h"
#include "bpf/tallies.h"
#include "capture/collect/heap.h"
#include "capture/collect/trigger.h"
#include "capture/os/instant.h"
#include "capture/os/maps.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace incident::capture {

// The path that a call names.
struct CallPath {
    std::uint64_t start_ns = 0; // of the call
    std::string bytes;          // hostile, no NUL; up to PATH_MAX_LEN - 1; "" if it is not kept
    bpf::path_status status = bpf::PATH_KEPT;
    std::uint64_t how_flags = 0; // openat2's open_how.flags; 0: it has none, or they could not be read
    bool kept() const { return status == bpf::PATH_KEPT; }
};

// The struct sockaddr that a call names, or that of the peer it has accepted.
struct CallAddress {
    std::uint64_t start_ns = 0; // of the call
    std::string bytes;          // hostile; up to ADDRESS_MAX_LEN
};

// The struct epoll_event that epoll_ctl gives, or the first ones that epoll_wait returns.
struct CallEvents {
    std::uint64_t start_ns = 0; // of the call
    std::string bytes;          // hostile; of up to EVENTS_KEPT events
};

// The first bytes that a call has written to standard error, or sent or received through a socket.
struct CallPayload {
    std::uint64_t start_ns = 0; // of the call
    std::string bytes;          // hostile; up to PAYLOAD_MAX
};

// A request of io_uring.
struct Request : bpf::io_request {
    std::string path; // that it names; hostile bytes, no NUL; "" if none, or if that was not readable
    bool path_is_cut() const { return path.size() + 1 == REQUEST_PATH_LEN; }
};

// Whether that is all that the call has sent or received.  ret: its result.
inline bool holds_all(const CallPayload &payload, std::int64_t ret) {
    return ret >= 0 && payload.bytes.size() >= static_cast<std::uint64_t>(ret);
}

// The rings of one thread, oldest record first.
struct ThreadRings {
    bpf::thread_slot slot{};
    std::vector<bpf::syscall_record> syscalls; // the in-flight one, if any, is last (duration_ns == IN_FLIGHT)
    std::vector<CallPath> paths;               // of these calls
    std::vector<CallAddress> addresses;        // likewise
    std::vector<CallEvents> events;            // likewise
    std::vector<CallPayload> payloads;         // likewise, and only if the rule asks for them
    std::vector<Request> requests;             // of io_uring, completed in the thread's context; by when that was
    std::vector<bpf::memory_record> memory;    // of calls, or of such as are no longer here
    std::uint64_t paths_left_out = 0, memory_left_out = 0;   // recorded, but not wanted
    std::uint64_t calls_left_out = 0, requests_left_out = 0; // recorded, but too far from the trigger for a bundle
};

// A call of a function whose return is probed and has not happened yet.
struct PendingReturn {
    std::uint64_t place = 0; // where on the stack the kernel has put the address of its trampoline instead of …
    std::uint64_t return_address = 0;
};

struct ReturnProbes {
    std::uint64_t trampoline = 0;
    std::vector<PendingReturn> pending; // innermost call first; frames that longjmp() left may be among them
    bool cut = false;                   // there were more than could be taken
};

// Consecutive pages of a thread's stack.
struct StackPiece {
    std::uint64_t address = 0;
    std::vector<std::uint8_t> bytes;
    bool another = false; // the first of the stack that a signal's handler, on the stack before, has interrupted

    bool operator==(const StackPiece &) const = default;
};

struct ThreadSnapshot {
    std::uint32_t tid = 0;
    std::optional<ThreadRings> rings;
    std::optional<bpf::thread_event> event; // registers, kernel stack, windows
    std::vector<StackPiece> stack;          // of the user stack, each by address; pages between them were absent
    std::optional<ReturnProbes> returns;    // if the thread is in a function whose return is probed
    std::string missing;                    // why rings or event are missing; "" if both are there
};

struct Loss {
    std::string where; // "slots", "ring buffer: thread event", …
    std::string reason;
    std::uint64_t count = 0;
};

struct ProbeState {
    std::string name;  // "tp_btf/sys_enter"
    std::string state; // "active", "degraded", "unavailable"
    std::string reason;
    std::uint64_t missed = 0;           // recursion_misses of the program
    std::uint64_t runs = 0, run_ns = 0; // while run times were counted
};

// What the recorder itself took of the machine, and what it left out for that reason.
struct CostRecord {
    std::uint64_t measured_ns = 0;   // monotonic, the last time before the incident; 0: not yet
    std::optional<double> budget;    // of each CPU; nullopt: no limit
    double total = 0;                // of each CPU
    double programs = 0, daemon = 0; // of one CPU: in the kernel, and by the daemon itself
    struct Step {
        std::string what, reason;
        std::uint64_t since_ns = 0; // monotonic
    };
    std::vector<Step> degraded; // in force
};

// The machine slept, or its clock was set, while the daemon ran.
struct ClockChange {
    MonotonicTime at; // what is earlier was before it; of a set clock, when that was noticed, some milliseconds later
    BootTime at_boot;
    std::uint64_t slept_ns = 0; // CLOCK_BOOTTIME went on, CLOCK_MONOTONIC stood still
    std::int64_t set_by_ns = 0; // CLOCK_REALTIME; negative: backwards
};

// Readings of the three clocks taken together, so that any recorded time can be
// converted from one to another.
struct Clocks {
    MonotonicTime monotonic;
    BootTime boottime;
    WallTime realtime;
    std::string boot_id;              // 32 hex digits
    std::vector<ClockChange> changes; // before these readings, oldest first

    // As the clock goes now: to compare with what others have timed just now.  A sleep has not set the clock: what was
    // before it is told as of then.
    WallTime wall_of(MonotonicTime t) const {
        WallTime wall = realtime + (t.ns - monotonic.ns);
        for (const ClockChange &change : changes)
            if (t < change.at)
                wall = wall - change.slept_ns;
        return wall;
    }
    WallTime wall_of(BootTime t) const { return realtime + (t.ns - boottime.ns); }
    // The same instant by the clock that stands still in a sleep.
    MonotonicTime monotonic_of(BootTime t) const {
        MonotonicTime same = monotonic + (t.ns - boottime.ns);
        for (const ClockChange &change : changes)
            if (t < change.at_boot)
                same = same + change.slept_ns;
        return same;
    }
    // What the clock showed then.  Computed modulo 2^64, as all of this.
    WallTime shown_at(MonotonicTime t) const {
        WallTime shown = wall_of(t);
        for (const ClockChange &change : changes)
            if (t < change.at)
                shown = shown - static_cast<std::uint64_t>(change.set_by_ns);
        return shown;
    }
    WallTime shown_at(BootTime t) const {
        WallTime shown = wall_of(t);
        for (const ClockChange &change : changes)
            if (t < change.at_boot)
                shown = shown - static_cast<std::uint64_t>(change.set_by_ns);
        return shown;
    }
};

// A time between two runs of incidentd, in which nothing was recorded, neither of processes that lived on nor of those
// that died.
struct Gap {
    std::uint32_t pid = 0; // of the incidentd that ran before
    bool stopped = false;  // it ended in good order; else it was killed, or the machine went down
    WallTime from;         // when it ended; if it was killed, when it was last known to run
    WallTime until;
    BootTime until_at; // the same: the clock may be set later
};

struct RuleRecord {
    std::string name;
    std::string kind;   // of the condition that was met last: "signal", …
    std::string text;   // the rule's effective TOML
    std::string source; // FILE:LINE
    std::uint64_t suppressed_before =
        0;                     // firings of this rule and signature not turned into bundles since the last bundle
    std::size_t condition = 0; // index in the rule of the one that was met last
    std::vector<std::string> fired_too; // names of other rules for the same
};

struct ProcessSnapshot {
    bpf::death_event event{};                 // the trigger; event.fatal: the process dies of it
    std::optional<bpf::process_entry> entry;  // lineage, signals
    std::vector<ThreadSnapshot> threads;      // the crashed one first, then by tid
    std::uint32_t threads_expected = 0;       // live threads of the process at the trigger
    std::string kernel_maps;                  // its mappings at its death, like /proc/PID/maps; "" unknown
    bool kernel_maps_cut = false;             // … and some are missing
    std::vector<bpf::memory_window> pointers; // what the crashed thread's stack points at
    std::vector<bpf::tally> tallies;          // the distinct facts that are remembered of it
    std::vector<Request> requests;            // of io_uring, not completed when they were read
    std::optional<HeapSnapshot> heap;         // if a rule asks for it
    bool gone = false;                        // the last thread had exited when the snapshot was closed
    bool deadline_passed = false;             // closed by the deadline: threads may be missing for that reason
};

struct IncidentInput {
    RuleRecord rule;
    Trigger trigger;
    std::vector<Match> matches; // the newest, oldest first
    std::uint64_t matches_total = 0, value_total = 0;
    DumpRecord dump;
    bool light = false; // one of many similar incidents, so without collected files and memory
    std::uint64_t similar = 0, similar_counted = 0; // incidents of this signature lately; those of them only counted
    ProcessSnapshot process;
    Clocks clocks;
    std::vector<Loss> losses; // global losses since the daemon started that can concern this incident
    std::vector<ProbeState> probes;
    std::optional<Gap> gap; // before this run of incidentd
    CostRecord cost;
    MonotonicTime trigger_seen; // when the daemon read the trigger
    // The name of the copy that is kept of a mapped file (capture/modules); "" none.  Empty: nobody keeps any.
    std::function<std::string(const Mapping &mapping)> kept_copy_of;
};

} // namespace incident::capture
