// Asks systemd which of the units that incidents depend on have failed.
#pragma once

#include "capture/os/result.h"

#include <string>
#include <vector>

namespace incident::postmortem::doctor {

// booted: systemd started this host. Otherwise there is nobody to ask, which is an Error.
Result<std::vector<std::string>> failed_units_of_systemd(bool booted);

} // namespace incident::postmortem::doctor
