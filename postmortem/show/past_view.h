// Shows what came before an incident beside its own events: the last words in the journal, the ends of its output, and
// other incidents and cores of the unit.
#pragma once

#include "postmortem/read/incident.h"

#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

// All lines are printable.  incident: incident.json.

// Of the journal: the last ones up to the trigger, and the first ones after it; or why there are none.  Empty: the
// bundle says nothing of the journal.
std::vector<std::string> last_word_lines(JsonView incident, const capture::Bundle &bundle,
                                         std::optional<std::int64_t> trigger_ns);
// Of the file that its output went to: "stdout" or "stderr".
std::vector<std::string> output_lines(const capture::Bundle &bundle, const std::string &name);
std::vector<std::string> nearby_lines(JsonView incident, std::optional<std::int64_t> trigger_wall_ns);

} // namespace incident::postmortem
