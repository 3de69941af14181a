// Shows the findings as a page and as JSON.
#pragma once

#include "postmortem/doctor/check.h"
#include "postmortem/read/json_view.h"
#include "postmortem/terminal/output.h"

#include <vector>

namespace incident::postmortem::doctor {

struct Line {
    const Check *check;
    Finding finding;
};

std::vector<Line> look_at_everything(const Host &host);
bool anything_bad(const std::vector<Line> &lines);

void print(const std::vector<Line> &lines, Output &out);
// {"state", "counts"{state: n}, "checks"[{group, name, state, fact, why, fix}]}
nlohmann::ordered_json to_json(const std::vector<Line> &lines);

} // namespace incident::postmortem::doctor
