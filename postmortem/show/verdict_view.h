// A verdict as text: each claim, and under it the facts it rests on.
#pragma once

#include "postmortem/read/json_view.h"

#include <string>
#include <vector>

namespace incident::postmortem {

// verdict: as in incident.json; nothing where there is none.  Printable.
std::vector<std::string> verdict_lines(JsonView verdict);

} // namespace incident::postmortem
