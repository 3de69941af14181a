// Renders what made the rule fire: the object that is named after the kind, and a sentence.  Internal to capture/.
#pragma once

#include "capture/render/render.h"
#include "capture/render/render_redact.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace incident::capture {

// "latency", "oom", …; "signal" for a signal
const char *trigger_kind(const Trigger &trigger);

// The name of its object in incident.json: the kind, but "txg" for txg_sync.
const char *trigger_key(const Trigger &trigger);

// This object; null for a signal, which is rendered elsewhere.
nlohmann::ordered_json trigger_json(const RenderContext &context, const Redactor &redactor);

// What happened to the process: "spent 5.2 s in exec_simple_query (still running)"; "" for a signal.
std::string trigger_sentence(const RenderContext &context);

// What happened, for a signature, without numbers that differ each time.
std::string trigger_label(const Trigger &trigger);

// The "trigger" line of the timeline: its name, and how long it lasted (0: no duration).
struct TriggerLine {
    std::string name;
    std::uint64_t duration_ns = 0;
};
TriggerLine trigger_line(const RenderContext &context);

// The errno of a result ("ENOENT"); "" if it is no error.
std::string error_name(std::int64_t ret);

// "write"; enum req_op, include/linux/blk_types.h
std::string operation_name(std::uint32_t operation);

} // namespace incident::capture
