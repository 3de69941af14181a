// Renders the core link for incident.json.  Internal to capture/.
#pragma once

#include "capture/core/core_link.h"

#include <nlohmann/json_fwd.hpp>

namespace incident::capture {

nlohmann::ordered_json core_json(const CoreLink &core);

} // namespace incident::capture
