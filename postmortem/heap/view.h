// incident.json's "heap" as text, printable.
#pragma once

#include "postmortem/read/json_view.h"

#include <string>
#include <vector>

namespace incident::postmortem {

// Level, since when, the account, lately.  heap: of incident.json.
std::vector<std::string> heap_account_lines(JsonView heap);
// The call stacks that grew most within the window, or where none did hold most.
std::vector<std::string> heap_growth_lines(JsonView heap);
// The biographies of the pointers at hand, the fault address first; an allocation is described once.
std::vector<std::string> heap_pointer_lines(JsonView heap);
// One line for each register and word of the stack that points into the heap.
std::vector<std::string> heap_register_lines(JsonView heap);

} // namespace incident::postmortem
