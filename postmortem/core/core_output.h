// A core brought to a file or pipe: finding, waiting, copying, and saying so.
#pragma once

#include "postmortem/core/core_copy.h"
#include "postmortem/core/core_find.h"
#include "postmortem/terminal/child.h"

namespace incident::postmortem {

// Copies the core that was located to a descriptor.  place: how messages call it.  Progress
// is shown on a terminal; a truncated core is reported.
Result<CopiedCore> fetch_core(const LocatedCore &located, int into, bool stream, const std::string &place,
                              const Session &session, SignalScope &signals);

} // namespace incident::postmortem
