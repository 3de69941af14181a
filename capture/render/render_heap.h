// What of a process's heap goes into its bundle (capture/collect/heap.h says the files).  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"
#include "capture/render/render_redact.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <utility>
#include <vector>

namespace incident::capture {

// As heap_files(), redacted; light: heap.json alone.
std::vector<std::pair<std::string, std::string>> render_heap(const HeapSnapshot &heap, bool light,
                                                             const Redactor &redactor);
// "heap" of incident.json.
nlohmann::ordered_json heap_summary(const HeapSnapshot &heap, bool light, const Redactor &redactor);
// What the account cannot vouch for, for the bundle's quality.
std::vector<Loss> heap_losses(const HeapSnapshot &heap);

} // namespace incident::capture
