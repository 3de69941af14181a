// The daemon's status in OpenMetrics text (https://github.com/prometheus/OpenMetrics, 1.0).  Only counters and
// gauges: node_exporter's textfile collector reads the older Prometheus format, in which the other types do
// not exist.
#pragma once

#include "postmortem/read/json_view.h"

#include <cstdint>
#include <optional>
#include <string>

namespace incident::postmortem {

// What the bundles take on the disk, and what is left there.
struct BundleUse {
    std::uint64_t bundles = 0, bytes = 0, free_bytes = 0;
};

// nullopt: there is no incidents directory, or not for us to see.
std::optional<BundleUse> bundle_use(const std::string &state);

// status: what the daemon answered; nullptr: it did not.
std::string openmetrics(const Json *status, const std::optional<BundleUse> &use);

} // namespace incident::postmortem
