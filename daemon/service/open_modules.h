// The copies of mapped files, in the state directory.
#pragma once

#include "daemon/modules/kept_modules.h"
#include "daemon/write/retention.h"
#include "rules/files/config.h"

#include <memory>
#include <string>

namespace incident::daemon {

// Error: why none are kept.
Result<std::shared_ptr<KeptModules>> open_kept_modules(const std::string &state, const rules::Config::Budget &budget);

// Has copies removed when incidents need the room; none where what copies take is not on the incidents' file system.
GiveWay gives_way_to(const std::string &incidents, const std::string &state,
                     const Result<std::shared_ptr<KeptModules>> &kept);

} // namespace incident::daemon
