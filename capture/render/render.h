// Makes the files of a bundle from a snapshot and the collected files.  It does no I/O except through the look-ups that
// the caller gives it.
#pragma once

#include "capture/collect/collect.h"
#include "capture/collect/snapshot.h"
#include "capture/core/core_link.h"
#include "capture/journal/last_words.h"

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
    LastWords last_words{}; // whether they are looked for
};

// The signature is the same for the same crash of the same build: "SIGSEGV:<12 digits of build-id>+0x1139".  Other
// kinds have "syscall openat EACCES:<build-id>+0x…", or the comm if there were no registers.  It is made only from the
// death_event, the trigger and its thread, so that it is known before anything is collected.
std::string incident_signature(const IncidentInput &input);
// The signature it would have if the place of the failure were not known.
std::string incident_kind(const IncidentInput &input);
// The process's auxiliary vector as the bundle has it, from /proc or from the kernel's own copy; "" unknown.
std::string auxiliary_vector(const Collected &collected, const bpf::death_event &event);
// Makes one screen of text from the rendered incident and threads and the last lines of the timeline.
std::string render_summary(const nlohmann::ordered_json &incident, const nlohmann::ordered_json &threads,
                           std::string_view timeline);

// All files with their paths in the bundle, in the order in which they are written: timeline.jsonl,
// threads.json, memory.json, memory.bin, process/*, host/*, heap.json, heap/*, summary.txt, incident.json.
std::vector<std::pair<std::string, std::string>> render_all(const RenderContext &context);

// Makes incident.json and summary.txt again with another core link, for IncidentsDir::amend().
Result<std::vector<std::pair<std::string, std::string>>> rerender_core(const std::string &incident_json,
                                                                       const std::string &threads_json,
                                                                       const std::string &timeline,
                                                                       const CoreLink &core);

} // namespace incident::capture
