// Says which of the loaded files may have made code at run time.
#pragma once

#include "postmortem/image/crash_image.h"

#include <string>
#include <vector>

namespace incident::postmortem {

struct CodeMaker {
    std::string_view name;   // "V8"
    std::string_view naming; // what makes it write /tmp/perf-PID.map, which names such code; "" nothing known
};

// Those that are loaded, each once: one, and it has made the code, if the program has not; of several nobody can say
// which.
std::vector<CodeMaker> code_makers(const std::vector<ImageModule> &modules);

} // namespace incident::postmortem
