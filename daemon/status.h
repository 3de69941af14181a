// The daemon's account of itself: what `incidentctl status` prints.
#pragma once

#include "daemon/recorder.h"
#include "rules/engine.h"

#include <string>
#include <vector>

namespace incident::daemon {

struct IncidentCounters {
    std::uint64_t committed = 0, failed = 0, recovered = 0;
};

struct StatusInput {
    const Recorder &recorder;
    const rules::Engine &engine;
    const std::vector<std::string> &rule_errors;
    IncidentCounters incidents;
    std::uint64_t pending = 0, suppressed = 0;
    std::string state;
    std::uint64_t started_realtime_ns = 0, uptime_ns = 0;
};

std::string status_json(const StatusInput &input);

} // namespace incident::daemon
