// The renderers behind render.h, sharing one Redactor, whose budget is that of the whole bundle.
// Internal to capture/.
#pragma once

#include "capture/render/render.h"
#include "capture/render/render_redact.h"

#include <nlohmann/json_fwd.hpp>

namespace incident::capture {

// JSON as it stands in a bundle: indented; and an array with an element a line, a third of the size.
std::string json_text(const nlohmann::ordered_json &json);
std::string json_lines(const nlohmann::ordered_json &array);

std::string timeline_of(const RenderContext &context, const Redactor &redactor);
nlohmann::ordered_json threads_of(const RenderContext &context, const Redactor &redactor);
nlohmann::ordered_json modules_of(const RenderContext &context, const Redactor &redactor);
MemoryImage memory_of(const RenderContext &context, const Redactor &redactor);
// Last: it says what the others' redaction had to leave out.
nlohmann::ordered_json incident_of(const RenderContext &context, const Redactor &redactor);

} // namespace incident::capture
