// Shows incident.json's "heap" as printable text.
#pragma once

#include "postmortem/read/json_view.h"

#include <string>
#include <vector>

namespace incident::postmortem {

// The level, the time recorded, the account, and the window. `heap` is incident.json's.
std::vector<std::string> heap_account_lines(JsonView heap);
// The call stacks that grew most within the window; if none grew, those that hold most.
std::vector<std::string> heap_growth_lines(JsonView heap);
// The biographies of the incident's pointers, the fault address first. Each allocation is described once.
std::vector<std::string> heap_pointer_lines(JsonView heap);
// One line for each register and word of the stack that points into the heap.
std::vector<std::string> heap_register_lines(JsonView heap);

} // namespace incident::postmortem
