// What made a rule fire, besides the process and the thread in which it happened: one plain struct for each kind.  What
// the kernel side sent stays as it came (bpf/event.h).
#pragma once

#include "bpf/event.h"

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace incident::capture {

// The signal itself is in the death_event.  One that came without it is here: a signal that its target ignores, for it
// never reaches it, and one beyond the captures that a user has in a second.
struct SignalTrigger {
    std::optional<bpf::signal_record> told;
};

// A call of a probed function, which has ended or is still running.
struct LatencyTrigger {
    std::string probe, leave; // as the rule writes them; leave is "" for the return of the function
    std::uint64_t threshold_ns = 0, entry_ns = 0, elapsed_ns = 0;
    bool in_flight = false;
    bool one_thread = true;           // the whole call ran in this thread; a goroutine may move to others
    std::uint64_t args[6] = {};       // rdi rsi rdx rcx r8 r9 at the entry
    std::optional<std::uint64_t> ret; // rax at the return
    std::optional<std::uint64_t> running_ns, runnable_ns; // the parts of elapsed_ns on a CPU, and waiting for one
    std::uint32_t depth = 0;                              // how many calls of probed functions are around it
    std::uint64_t missed = 0; // how many returns of this probe were never seen (longjmp, exceptions, exits)
};

struct OomTrigger {
    std::optional<bpf::oom_event> event; // nullopt: only the kernel log tells of it
    // From the kernel's own line "oom-kill:constraint=…" (mm/oom_kill.c, dump_oom_summary)
    std::string constraint, oom_memcg, task_memcg, line;
    std::string killed; // "Killed process 12 (x) total-vm:… anon-rss:…"
};

// One thread's part in a reclaim storm.
struct Stalled {
    std::uint32_t pid = 0, tid = 0;
    std::string comm, cgroup;
    std::uint64_t count = 0, stalled_ns = 0, longest_ns = 0, reclaimed_pages = 0;
    std::vector<std::uint64_t> kernel_stack; // of its longest stall
};

struct ReclaimTrigger {
    bpf::reclaim_trigger last{};
    std::vector<Stalled> top;    // most stalled first
    std::uint64_t threads = 0;   // how many stalled, shown or not
    std::uint64_t before_ns = 0; // when host/before was read; 0: it was not
};

struct TxgTrigger {
    std::string pool, source; // "fentry", "kprobe", "kstat"
    std::uint64_t txg = 0, start_ns = 0, elapsed_ns = 0, threshold_ns = 0;
    bool in_flight = false;
};

struct SyscallTrigger {
    bpf::syscall_trigger event{};
};

struct BlockedTrigger {
    bpf::blocked_trigger event{};
    bool in_flight = false; // the wait was not over; until_ns is when it was seen
    bool idle = false;      // in a call that programs make when they have nothing to do
    std::uint64_t threshold_ns = 0;
};

struct MemoryTrigger {
    std::uint64_t rss = 0;                                        // bytes
    std::uint64_t growth = 0;                                     // during the samples
    std::vector<std::pair<std::uint64_t, std::uint64_t>> samples; // t_ns, bytes; oldest first
};

struct ExitTrigger {
    int status = 0;
};

struct BlockIoTrigger {
    bpf::block_io_trigger event{};
    int error = 0; // positive errno
};

struct TracepointTrigger {
    std::string category, name, filter;
    std::string fields;               // "prev_comm=a prev_state=2 …"
    std::vector<std::uint8_t> record; // as the kernel wrote it …
    std::string format;               // … and its format in tracefs, so that other filters can be tried on it
};

using Trigger = std::variant<SignalTrigger, LatencyTrigger, OomTrigger, ReclaimTrigger, TxgTrigger, SyscallTrigger,
                             BlockedTrigger, MemoryTrigger, ExitTrigger, BlockIoTrigger, TracepointTrigger>;

// A match that made the rule fire; there are several if the rule counts.
struct Match {
    std::uint64_t t_ns = 0, value = 0; // value: ns or bytes, by kind
    std::size_t condition = 0;
};

// What was done about the rule's `dump`.
struct DumpRecord {
    bool asked = false, sent = false, dry_run = false;
    int signal = 0;
    bool by_kernel = false;            // sent in the thread's own context; else by the daemon, through a pidfd
    std::string refused;               // why no signal was sent
    std::vector<std::string> findings; // of the pre-check: what speaks against a core, and what was checked
};

} // namespace incident::capture
