// The mappings the kernel side read out of a dying process's address space, as /proc/PID/maps
// would have printed them: of a process that is gone before user space looks, all there is.
#pragma once

#include "bpf/event.h"

#include <cstdint>
#include <span>
#include <string>

namespace incident::capture {

// Lines of one event (struct maps_event, of which as much was sent as is used).  Bounds are checked:
// what does not fit the event is left out.  whose: names [heap], [stack] and [vdso].
// cut: set where mappings are missing or a path is.
std::string kernel_maps_text(std::span<const std::uint8_t> event, const bpf::death_event &whose, bool &cut);

} // namespace incident::capture
