// Renders what is known of the heap of a process without any probe on it: the calls that changed its address space, and
// its resident memory as these calls, the samples of a rule and the incident found it.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"

#include <nlohmann/json_fwd.hpp>

namespace incident::capture {

// {from_ns, complete, incomplete_because[], growth_bytes, minor_faults, major_faults,
//  by_call{brk, mmap, munmap, mremap: {calls, bytes}}, rss_points, rss_curve[{t_ns, rss_bytes}]}
//
// Since from_ns all calls are known; calls and bytes are those since then, and the bytes add up to growth_bytes. Faults
// are those of the threads since their first such call.  A curve of more than 512 points is cut into parts and shows
// the lowest and the highest point of each; rss_points says how many points there were.
nlohmann::ordered_json pages_json(const IncidentInput &input);

} // namespace incident::capture
