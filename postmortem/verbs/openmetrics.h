// Writes the daemon's status as OpenMetrics text (https://github.com/prometheus/OpenMetrics, 1.0). It has only counters
// and gauges, because node_exporter's textfile collector reads the older Prometheus format, which does not have the
// other types.
#pragma once

#include "postmortem/read/json_view.h"

#include <cstdint>
#include <optional>
#include <string>

namespace incident::postmortem {

// The disk space that bundles take, and the space that is left.
struct BundleUse {
    std::uint64_t bundles = 0, bytes = 0, free_bytes = 0;
};

// nullopt: there is no incidents directory, or we have no permission to read it.
std::optional<BundleUse> bundle_use(const std::string &state);

// `status` is the daemon's answer; nullptr if it did not answer.
std::string openmetrics(const Json *status, const std::optional<BundleUse> &use);

} // namespace incident::postmortem
