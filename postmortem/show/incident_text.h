// The incident on one screen, for `info` and for `gdb` where there is no core.
#pragma once

#include "postmortem/core/core_find.h"

namespace incident::postmortem {

struct IncidentPage {
    const Incident &incident;
    const capture::Bundle &bundle;
    std::string path; // of the bundle
    LocatedCore core;
    const Json *threads = nullptr; // null: as in the bundle
};

void print_incident(const IncidentPage &page, Output &out);
// incident.json itself, with the core as it is now, the path and the files beside.
Json incident_document(const IncidentPage &page);

} // namespace incident::postmortem
