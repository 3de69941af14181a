// An incident as the rules saw it. `incidentctl replay` gives it to edited rules.
#pragma once

#include "postmortem/read/incident.h"
#include "rules/engine/replay.h"
#include "rules/files/parse.h"

namespace incident::postmortem {

// The tracepoint formats that bundles contain, by "CATEGORY:NAME".
using TracepointFormats = std::map<std::string, std::string>;

// Returns an Error if the incident lacks something that the rules need. Times are converted to the wall clock, so that
// incidents of several boots have one order.
Result<rules::Recorded> recorded_firing(const Incident &incident, const rules::Lookups &lookups);

// Adds the format of the incident's trigger, if that is a tracepoint.
void add_format(const Incident &incident, TracepointFormats &formats);

} // namespace incident::postmortem
