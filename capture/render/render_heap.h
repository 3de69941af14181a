// Renders the heap of a process for its bundle (capture/collect/heap.h describes the files).  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"
#include "capture/render/render_redact.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <utility>
#include <vector>

namespace incident::capture {

// Paths in the bundle and their bytes: heap.json, and the .bin files that have a record.  light: only heap.json.
//
// heap.json is
// {layout, level, asked, reason, exec_ns, since_ns, read_ns, window{from_ns, ns}, functions[{name, path, probed,
// problem}],
//  account{allocations, allocated_bytes, frees, freed_bytes, live, live_bytes, reused, reused_bytes, lost, lost_bytes,
//          unknown_frees, failed, unfinished, unentered, no_frame, no_stack, strangers},
//  in_window{allocations, allocated_bytes, frees, freed_bytes}, history{from_ns, records, written},
//  files{stacks, live, history}: numbers of records, cost{calls, ns},
//  sizes[{from, to, allocations, bytes, window_allocations, window_bytes}]: classes that have any; to: inclusive, null:
//  no end}
std::vector<std::pair<std::string, std::string>> render_heap(const HeapSnapshot &heap, bool light,
                                                             const Redactor &redactor);
// "heap" of incident.json: the same without layout, functions, cost and sizes.
nlohmann::ordered_json heap_summary(const HeapSnapshot &heap, bool light, const Redactor &redactor);
// What the account of the heap cannot prove, for the quality of the bundle.
std::vector<Loss> heap_losses(const HeapSnapshot &heap);

} // namespace incident::capture
