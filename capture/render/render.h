// Snapshot + collected files → the bundle's own files.  Pure: no I/O but the kernel
// symbol lookup it is handed.
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/snapshot.h"
#include "capture/core/core_link.h"

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <string>

namespace incident::capture {

struct RenderContext {
    const IncidentInput &input;
    const Collected &collected;
    std::string id;           // bundle name
    std::string build_id_exe; // "" unknown
    // kernel text address → "symbol+0x1f [module]"; "" unknown
    std::function<std::string(std::uint64_t)> kernel_symbol;
    // build-id of a mapped file, cached by the caller; "" unknown
    std::function<std::string(const std::string &path, std::uint64_t inode)> build_id_of;
    std::vector<std::string> redact; // regular expressions (RE2)
    CoreLink core;
};

// The bundle's timeline.jsonl: every recorded event of every thread and of the process,
// ordered by time (see DESIGN's keys: {t_ns, wall, tid, kind, name, args[], ret, error,
// duration_ns, path, fd, in_flight}).
std::string render_timeline(const RenderContext &context);
nlohmann::ordered_json render_threads(const RenderContext &context);
nlohmann::ordered_json render_incident(const RenderContext &context);
// "SIGSEGV:<12 digits of build-id>+0x1139", the same for the same crash of the same build; of other
// kinds "syscall openat EACCES:<build-id>+0x…", or with the comm where no registers were at hand.
// From the death_event, the trigger and its thread alone, so that it can be asked for before collecting.
std::string incident_signature(const IncidentInput &input);
// The signature it would have if nothing said where it struck.
std::string incident_kind(const IncidentInput &input);
// From the rendered incident and threads plus the last lines of the timeline: one screen.
std::string render_summary(const nlohmann::ordered_json &incident, const nlohmann::ordered_json &threads,
                           std::string_view timeline);

struct MemoryImage {
    std::string index; // memory.json: [{address, length, offset, tid, what: "stack"|"window rax"|…}]
    std::string bytes; // memory.bin
};
MemoryImage render_memory(const RenderContext &context);

// Bundle paths under which all of it is stored, in writing order: timeline.jsonl,
// threads.json, memory.json, memory.bin, process/*, host/*, heap.json, heap/*, summary.txt, incident.json.
std::vector<std::pair<std::string, std::string>> render_all(const RenderContext &context);

// incident.json and summary.txt again with another core link, for IncidentsDir::amend().
Result<std::vector<std::pair<std::string, std::string>>> rerender_core(const std::string &incident_json,
                                                                       const std::string &threads_json,
                                                                       const std::string &timeline,
                                                                       const CoreLink &core);

} // namespace incident::capture
