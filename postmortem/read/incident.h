// incident.json: the document, and typed access to the few values that other code computes with.
#pragma once

#include "capture/bundle/bundle.h"
#include "capture/core/core_link.h"
#include "postmortem/read/json_view.h"
#include "postmortem/read/session.h"

#include <optional>
#include <string>

namespace incident::postmortem {

class Incident {
public:
    static Result<Incident> read(const capture::Bundle &bundle);
    // `text` is incident.json's, `name` the bundle's for messages, `auxv` the file process/auxv ("" unknown).
    static Result<Incident> parse(std::string_view text, const std::string &name, std::string auxv = "");

    JsonView view() const { return document_; }
    const Json &document() const { return document_; }

    std::uint32_t pid() const;
    std::uint32_t tid() const; // the thread it happened in; 0 unknown
    std::string comm() const;
    std::string exe() const;
    int signal() const;                             // the signal that killed it; 0 none known
    std::optional<std::int64_t> trigger_ns() const; // monotonic, as the timeline's t_ns
    std::optional<std::int64_t> trigger_wall_ns() const;
    capture::DeathIdentity death() const;
    capture::CoreLink stored_core() const;

private:
    Json document_;
    std::string auxv_;
};

// The object of incident.json that says what made the rule fire. It is named after the kind.
JsonView trigger_detail(JsonView incident);

inline constexpr std::uint64_t incident_json_max = 8u << 20;
inline constexpr std::uint64_t auxv_max = 64u << 10;
inline constexpr std::uint64_t threads_json_max = 64u << 20;

// The bundle that an ID names. Errors are written for the user.
struct OpenedBundle {
    capture::Bundle bundle;
    std::string path; // <state>/incidents/<name>, or as given
};
Result<capture::IncidentsDir> open_incidents(const Session &session);
// `id` is what IncidentsDir::resolve() accepts or, if it has a '/', the bundle's directory.
Result<OpenedBundle> open_bundle(const Session &session, const std::string &id);
// Reads a JSON file of a bundle; the Error names the bundle and the file.
Result<Json> read_json(const capture::Bundle &bundle, const std::string &file, std::uint64_t cap);

} // namespace incident::postmortem
