// Limits what a bundle has of a thread to what its rule wants.
#pragma once

#include "capture/collect/snapshot.h"
#include "rules/model/rule.h"

namespace incident::daemon {

// The recorder keeps what any rule wants, so this removes what the context of the bundle's own rule does not ask for.
void keep_wanted(const rules::Context &context, capture::ThreadSnapshot &thread);

// What was kept of calls that are no longer among the thread's is left out with them.
void keep_those_of_calls(capture::ThreadRings &rings);

} // namespace incident::daemon
