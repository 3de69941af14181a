// Prints the mappings that the kernel side has read from a dying process as /proc/PID/maps would.  If the process is
// gone before user space can read that file, this is all that is known.
#pragma once

#include "bpf/event.h"

#include <cstdint>
#include <span>
#include <string>

namespace incident::capture {

// The lines of one event (struct maps_event, of which only the used part was sent).  What does not fit into the event
// is left out.  whose: the process, which is needed to name [heap], [stack] and [vdso].  cut: is set if mappings or
// paths are missing.
std::string kernel_maps_text(std::span<const std::uint8_t> event, const bpf::death_event &whose, bool &cut);

} // namespace incident::capture
