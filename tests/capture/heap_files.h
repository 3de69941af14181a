// The files of a heap as a bundle without redaction has them.
#pragma once

#include "capture/render/render_parts.h"

#include <nlohmann/json.hpp>

namespace incident::capture::test {

inline std::vector<std::pair<std::string, std::string>> heap_files(const HeapSnapshot &heap) {
    return render_heap(heap, false, Redactor({}));
}

inline nlohmann::json heap_json(const HeapSnapshot &heap) {
    return nlohmann::json::parse(heap_files(heap).front().second);
}

} // namespace incident::capture::test
