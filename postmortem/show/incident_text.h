// Shows the incident on one screen, for `info`, and for `gdb` if there is no core.
#pragma once

#include "postmortem/core/core_find.h"

namespace incident::postmortem {

struct IncidentPage {
    const Incident &incident;
    const capture::Bundle &bundle;
    std::string path; // of the bundle
    LocatedCore core;
    const Json *threads = nullptr; // null: the bundle's
};

void print_incident(const IncidentPage &page, Output &out);
// incident.json, with the core as it is now, the path and the other files.
Json incident_document(const IncidentPage &page);

} // namespace incident::postmortem
