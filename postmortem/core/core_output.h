// Brings a core to a file or pipe: finds it, waits for it, copies it, and reports progress.
#pragma once

#include "postmortem/core/core_copy.h"
#include "postmortem/core/core_find.h"
#include "postmortem/terminal/child.h"

namespace incident::postmortem {

// Copies the located core of an incident to a descriptor. A core whose own auxiliary vector is not the incident's is
// refused. `place` is its name in messages. Progress is shown on a terminal; a truncated
// core is reported.
Result<CopiedCore> fetch_core(const Incident &incident, const LocatedCore &located, int into, bool stream,
                              const std::string &place, const Session &session, SignalScope &signals);

} // namespace incident::postmortem
