// Makes the list of watches.  A new kind of trigger adds one line to it.
#pragma once

#include "daemon/modules/kept_modules.h"
#include "daemon/watch/watches.h"
#include "rules/files/config.h"

#include <memory>

namespace incident::daemon {

// Makes every watch and adds it to the list.  kept: the copies of mapped files, or why there are none.
void add_all(Watches &watches, const rules::Config &config, const Result<std::shared_ptr<KeptModules>> &kept);

} // namespace incident::daemon
