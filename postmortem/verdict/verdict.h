// What most likely happened, and what that rests on.  A claim is made only where the facts
// under it leave no other reading; where there are none, nothing is said.
#pragma once

#include "postmortem/heap/findings.h"
#include "postmortem/image/crash_image.h"
#include "postmortem/incident.h"
#include "postmortem/unwind/analysis.h"

#include <string>
#include <vector>

namespace incident::postmortem {

struct Claim {
    std::string text;               // one sentence, without a full stop
    std::vector<std::string> facts; // what it rests on, each on its own readable
};

// The first is the verdict; others say more of the same incident.  Empty: nothing can be said.
// Texts may hold bytes of the process: to be escaped where they are shown.
struct Verdict {
    std::vector<Claim> claims;
};

// bundle: for process/limits and host/kernel_log.  heap: null where none was recorded.
Verdict judge(const Incident &incident, const CrashImage &image, const Analysis &analysis,
              const capture::Bundle &bundle, const HeapFindings *heap = nullptr);

// {"sentence", "claims": [{"claim", "facts": []}]}; null where nothing can be said.
Json to_json(const Verdict &verdict);

} // namespace incident::postmortem
