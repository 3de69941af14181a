// What is known of a process's heap without any probe on it: the calls that changed its address space, and its
// resident memory as they, a rule's samples and the incident found it.  Internal to capture/.
#pragma once

#include "capture/collect/snapshot.h"

#include <nlohmann/json_fwd.hpp>

namespace incident::capture {

// {from_ns, complete, incomplete_because[], growth_bytes, minor_faults, major_faults,
//  by_call{brk, mmap, munmap, mremap: {calls, bytes}}, rss_points, rss_curve[{t_ns, rss_bytes}]}
//
// Calls and bytes are those since from_ns, from when on all of them are known, and add up to growth_bytes;
// faults are those of the threads since their first such call.  A curve of more than 512 points shows each
// moment's lowest and highest; rss_points says of how many.
nlohmann::ordered_json pages_json(const IncidentInput &input);

} // namespace incident::capture
