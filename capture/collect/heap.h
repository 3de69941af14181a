// What was known of the heap of a process at an incident: plain data that the daemon fills in, and the files of the
// bundle that hold it.
//
//   heap.json          the account, what was probed, from when on, histogram: render_heap() says the keys
//   heap/stacks.bin    HeapStackRecord, one a distinct call stack of allocations and frees, by id
//   heap/live.bin      HeapLiveRecord, one an allocation not freed, by address
//   heap/history.bin   HeapHistoryRecord, one an allocation or a free, by time; level "history" only
//
// The .bin files are arrays of these records, little-endian as the machine wrote them, without a
// header; heap.json says how many, and "layout": HEAP_FILE_LAYOUT.
#pragma once

#include "bpf/heap.h"
#include "capture/os/result.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace incident::capture {

inline constexpr int HEAP_FILE_LAYOUT = 1;

struct HeapSums {
    std::uint64_t allocations = 0, allocated_bytes = 0, frees = 0, freed_bytes = 0;
    bool operator==(const HeapSums &) const = default;
};

struct HeapStackRecord {
    std::uint64_t id = 0;
    HeapSums total;  // what this call stack allocated since the recording began, whoever freed it
    HeapSums window; // the part of it within the window (HeapSnapshot::window_ns)
    std::uint64_t first_ns = 0;
    // The registers at the entry of the function: ip is in the function, and [sp] holds its return address.
    std::uint64_t ip = 0, sp = 0, bp = 0, bx = 0, r12 = 0, r13 = 0, r14 = 0, r15 = 0;
    std::uint32_t length = 0;   // bytes of slice
    std::uint32_t function = 0; // bpf::heap_function
    std::uint8_t slice[HEAP_SLICE] = {};
};
struct HeapLiveRecord {
    std::uint64_t address = 0, size = 0, stack = 0, t_ns = 0;
    std::uint32_t tid = 0, function = 0;
};
struct HeapHistoryRecord {
    std::uint64_t t_ns = 0, address = 0, size = 0, stack = 0;
    std::uint32_t tid = 0;
    std::uint8_t kind = 0, function = 0, flags = 0, pad = 0; // bpf::heap_kind, heap_function, heap_flags
};
static_assert(sizeof(HeapStackRecord) == 8 + 2 * 32 + 8 + 8 * 8 + 8 + HEAP_SLICE);
static_assert(sizeof(HeapLiveRecord) == 40);
static_assert(sizeof(HeapHistoryRecord) == 40);

struct HeapFunction {
    std::string name;    // "malloc"
    std::string path;    // of the file it is in, as the process knows it
    std::string problem; // why it could not be probed, or what its probe costs; "" if neither
    bool probed = false;
};

struct HeapSnapshot {
    std::string level;                 // "sizes", "history"
    std::string asked;                 // the level that rules ask for; may be more than level
    std::string reason;                // why less is recorded, or nothing; else ""
    std::uint64_t exec_ns = 0;         // the process's last exec, or its fork; 0: not seen
    std::uint64_t since_ns = 0;        // when recording began, with all probes attached; 0: never
    std::uint64_t read_ns = 0;         // when all this was read
    std::uint64_t window_from_ns = 0;  // the window is [window_from_ns, read_ns)
    std::uint64_t history_from_ns = 0; // since then the history is complete; 0: there is none
    std::vector<HeapFunction> functions;
    // allocated_bytes - freed_bytes - reused_bytes = live bytes + lost_bytes; the numbers likewise
    HeapSums total, window;
    std::uint64_t live = 0, live_bytes = 0;
    std::uint64_t reused = 0, reused_bytes = 0, lost = 0, lost_bytes = 0;
    std::uint64_t unknown_frees = 0, failed = 0, unfinished = 0, unentered = 0, no_frame = 0, no_stack = 0,
                  strangers = 0;
    std::uint64_t history_written = 0; // how many records were ever written; the oldest were overwritten
    // How many calls were seen, and how much they were slowed together, by the price measured on the machine; 0: not
    // measured.
    std::uint64_t calls = 0, calls_ns = 0;
    struct Class {
        std::uint64_t allocations = 0, bytes = 0;
    };
    Class sizes[HEAP_CLASSES], sizes_in_window[HEAP_CLASSES];
    std::vector<HeapStackRecord> stacks;
    std::vector<HeapLiveRecord> allocations;
    std::vector<HeapHistoryRecord> history;
};

// The members of "account" in heap.json beside those of HeapSums.
inline constexpr std::pair<const char *, std::uint64_t HeapSnapshot::*> heap_account[] = {
    {"live", &HeapSnapshot::live},
    {"live_bytes", &HeapSnapshot::live_bytes},
    {"reused", &HeapSnapshot::reused},
    {"reused_bytes", &HeapSnapshot::reused_bytes},
    {"lost", &HeapSnapshot::lost},
    {"lost_bytes", &HeapSnapshot::lost_bytes},
    {"unknown_frees", &HeapSnapshot::unknown_frees},
    {"failed", &HeapSnapshot::failed},
    {"unfinished", &HeapSnapshot::unfinished},
    {"unentered", &HeapSnapshot::unentered},
    {"no_frame", &HeapSnapshot::no_frame},
    {"no_stack", &HeapSnapshot::no_stack},
    {"strangers", &HeapSnapshot::strangers}};

} // namespace incident::capture
