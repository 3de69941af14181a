// How much of a thread a rule wants.
#pragma once

#include "capture/collect/snapshot.h"
#include "rules/model/rule.h"

namespace incident::daemon {

// The recorder keeps what any rule wants; a bundle gets what its own rule's context says.
void keep_wanted(const rules::Context &context, capture::ThreadSnapshot &thread);

} // namespace incident::daemon
