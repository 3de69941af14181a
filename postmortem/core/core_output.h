// Brings a core to a file or pipe: finds it, waits for it, copies it, and reports progress.
#pragma once

#include "postmortem/core/core_copy.h"
#include "postmortem/core/core_find.h"
#include "postmortem/terminal/child.h"

namespace incident::postmortem {

// Copies a located core to a descriptor. `place` is its name in messages. Progress is shown on a terminal; a truncated
// core is reported.
Result<CopiedCore> fetch_core(const LocatedCore &located, int into, bool stream, const std::string &place,
                              const Session &session, SignalScope &signals);

} // namespace incident::postmortem
