// Renders the heap of a process for its bundle (capture/collect/heap.h describes the files).  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"
#include "capture/render/render_redact.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <utility>
#include <vector>

namespace incident::capture {

// The same files as heap_files(), redacted; light: only heap.json.
std::vector<std::pair<std::string, std::string>> render_heap(const HeapSnapshot &heap, bool light,
                                                             const Redactor &redactor);
// "heap" of incident.json.
nlohmann::ordered_json heap_summary(const HeapSnapshot &heap, bool light, const Redactor &redactor);
// What the account of the heap cannot prove, for the quality of the bundle.
std::vector<Loss> heap_losses(const HeapSnapshot &heap);

} // namespace incident::capture
