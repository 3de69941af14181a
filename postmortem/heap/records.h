// Reads the heap's account and records from a bundle (capture/collect/heap.h). They may be hostile.
#pragma once

#include "capture/bundle/bundle.h"
#include "capture/collect/heap.h"

#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

inline constexpr std::uint64_t heap_json_max = 8u << 20;
inline constexpr std::uint64_t heap_file_max = 1u << 30; // for each .bin; the daemon's default is 256 MiB for all

struct Heap {
    // Sorted: stacks by id, allocations by address, history by time (equal times keep their order). The numbers come
    // from heap.json.
    capture::HeapSnapshot known;
    bool live_read = false;         // `allocations` has all live allocations
    std::vector<std::string> notes; // what could not be read

    const capture::HeapStackRecord *stack(std::uint64_t id) const; // null: not kept
    // The number of calls that left no record. An event that the history does not have may be one of them.
    std::uint64_t unrecorded() const;
};

// nullopt: the bundle has no heap.
std::optional<Heap> read_heap(const capture::Bundle &bundle);

// Sorts the records of a heap that did not come from read_heap().
void order(Heap &heap);

} // namespace incident::postmortem
