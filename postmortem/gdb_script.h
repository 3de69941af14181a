// postmortem/gdb/incident.py, built in so that `incidentctl gdb` works with nothing installed.
#pragma once

#include <string_view>

namespace incident::postmortem {

extern const std::string_view gdb_script;

} // namespace incident::postmortem
