// An incident as the rules saw it: what `incidentctl replay` asks edited rules about.
#pragma once

#include "postmortem/read/incident.h"
#include "rules/engine/replay.h"
#include "rules/files/parse.h"

namespace incident::postmortem {

// A tracepoint's format as a bundle has it, by "CATEGORY:NAME".
using TracepointFormats = std::map<std::string, std::string>;

// Error: what of the incident is missing to ask again.  Times become those of the wall clock,
// so that incidents of several boots have one order.
Result<rules::Recorded> recorded_firing(const Incident &incident, const rules::Lookups &lookups);

// Adds the format that the incident's trigger was made by, if it is a tracepoint's.
void add_format(const Incident &incident, TracepointFormats &formats);

} // namespace incident::postmortem
