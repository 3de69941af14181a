// Makes the list of watches.  A new kind of trigger adds one line to it.
#pragma once

#include "daemon/watch/watches.h"
#include "rules/files/config.h"

#include <string>

namespace incident::daemon {

// Makes every watch and adds it to the list.  state: the daemon's directory.
void add_all(Watches &watches, const rules::Config &config, const std::string &state);

} // namespace incident::daemon
