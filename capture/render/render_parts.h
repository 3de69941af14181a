// The renderers behind render.h.  They share one Redactor, because its budget is for the whole bundle.  Internal to
// capture/.
#pragma once

#include "capture/render/render.h"
#include "capture/render/render_redact.h"

#include <nlohmann/json_fwd.hpp>

namespace incident::capture {

// JSON as bundles have it: indented, or an array with one element on each line, which is a third of the size.
std::string json_text(const nlohmann::ordered_json &json);
std::string json_lines(const nlohmann::ordered_json &array);

struct MemoryImage {
    std::string index; // memory.json: [{address, length, offset, tid, what: "stack"|"window rax"|…}]
    std::string bytes; // memory.bin
};

// timeline.jsonl: every recorded event of every thread and of the process, ordered by time: {t_ns, wall, tid, kind,
// name, args[], ret, error, duration_ns, path, fd, in_flight}.
std::string timeline_of(const RenderContext &context, const Redactor &redactor);
nlohmann::ordered_json threads_of(const RenderContext &context, const Redactor &redactor);
nlohmann::ordered_json modules_of(const RenderContext &context, const Redactor &redactor);
MemoryImage memory_of(const RenderContext &context, const Redactor &redactor);
// Call it last, because it says what redaction had to leave out in the others.
nlohmann::ordered_json incident_of(const RenderContext &context, const Redactor &redactor);

} // namespace incident::capture
