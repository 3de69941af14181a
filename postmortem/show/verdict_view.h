// Shows a verdict as text: each claim, and under it the facts that support it.
#pragma once

#include "postmortem/read/json_view.h"

#include <string>
#include <vector>

namespace incident::postmortem {

// `verdict` is incident.json's. The result is printable, and empty if there is no verdict.
std::vector<std::string> verdict_lines(JsonView verdict);

} // namespace incident::postmortem
