// Shows what is remembered of a process beyond its last calls: whom it talked to, what failed, what was slow, which
// files it opened.
#pragma once

#include "postmortem/read/incident.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

// Of each the ones met last, the last one first; all lines are printable.
struct FactLines {
    std::vector<std::string> peers, failures, slow, files, growth;
};

// From facts.jsonl of the bundle, which may come from elsewhere.  A problem with reading it is a line of failures.
FactLines fact_lines(const capture::Bundle &bundle, std::optional<std::int64_t> trigger_ns);

} // namespace incident::postmortem
