// incidentd --check
#pragma once

#include "daemon/service/options.h"

namespace incident::daemon {

// Prints every diagnostic of configuration and rules to standard error and a summary to standard output.  Returns the
// exit status.
int check(const Options &options);

} // namespace incident::daemon
