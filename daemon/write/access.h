// Sets who may read incidents: only root, or also the members of a group ([access] group).
//
// The permissions of the directory incidents/ hold this setting.  Bundles get the same permissions
// (capture/bundle/bundle_writer.h) and the same group (set-group-ID).  The group must pass through the state directory,
// so that becomes 0711: nobody can list it, and lock and socket stay root's.
#pragma once

#include "capture/os/result.h"

#include <string>

namespace incident::daemon {

// Makes `state` and its incidents, also the older ones, readable for this group; "": only for root.  Error: there is no
// such group, or a file cannot be changed.
Status grant_access(const std::string &state, const std::string &group);

} // namespace incident::daemon
