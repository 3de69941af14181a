// Words that the messages about functions and static probes share.
#pragma once

#include "daemon/probe/probe_price.h"

#include <string>
#include <vector>

namespace incident::daemon {

// "a, b, c and 4 more": sorted, each once, cut to a readable length.
std::string list_names(std::vector<std::string> names);

// What a probe on such an instruction costs; "" : the usual.
std::string price_warning(ProbePrice price);

} // namespace incident::daemon
