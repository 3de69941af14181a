// Which of the units incidents depend on have failed, by systemd's word.
#pragma once

#include "capture/os/result.h"

#include <string>
#include <vector>

namespace incident::postmortem::doctor {

// booted: systemd started this host; else there is nobody to ask, which is an Error.
Result<std::vector<std::string>> failed_units_of_systemd(bool booted);

} // namespace incident::postmortem::doctor
