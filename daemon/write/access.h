// Who may read incidents: root alone, or the members of a group ([access] group).
//
// The directory incidents/ carries the decision: bundles are made as readable as it is
// (capture/bundle/bundle_writer.h) and belong to its group (set-group-ID).  The state directory is
// then a way through (0711): nothing in it is listed, lock and socket stay root's.
#pragma once

#include "capture/os/result.h"

#include <string>

namespace incident::daemon {

// `state` and the incidents in it to that group, also those written before; "" to root alone.
// Errors: there is no such group, or a file cannot be changed.
Status grant_access(const std::string &state, const std::string &group);

} // namespace incident::daemon
