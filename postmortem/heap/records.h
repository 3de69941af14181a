// The heap as a bundle has it (capture/collect/heap.h): its account and its records, whoever made them.
#pragma once

#include "capture/bundle/bundle.h"
#include "capture/collect/heap.h"

#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

inline constexpr std::uint64_t heap_json_max = 8u << 20;
inline constexpr std::uint64_t heap_file_max = 1u << 30; // of each .bin; the daemon's default is 256 MiB of all

struct Heap {
    // stacks by id, allocations by address, history by time, equal times as they stood; the numbers are heap.json's.
    capture::HeapSnapshot known;
    bool live_read = false;         // allocations are all that lived
    std::vector<std::string> notes; // what could not be read

    const capture::HeapStackRecord *stack(std::uint64_t id) const; // null: not kept
    bool has_history() const { return !known.history.empty(); }
    // Calls that left no record: what the history does not have may have happened in one of them.
    std::uint64_t unrecorded() const;
};

// nullopt: the bundle has none.
std::optional<Heap> read_heap(const capture::Bundle &bundle);

// Orders the records of a heap that was put together otherwise.
void order(Heap &heap);

} // namespace incident::postmortem
