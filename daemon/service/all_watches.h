// The list of watches: a new kind is one line there.
#pragma once

#include "daemon/watch/watches.h"
#include "rules/files/config.h"

namespace incident::daemon {

// Made and added to the list.
void add_all(Watches &watches, const rules::Config &config);

} // namespace incident::daemon
