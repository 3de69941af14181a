// Gives up rights: capabilities (capabilities(7)), and connections to others.
#pragma once

#include "capture/os/result.h"

#include <linux/capability.h>

#include <cstdint>
#include <span>

namespace incident::daemon {

std::uint64_t effective_capabilities(); // bit n is capability n; 0 if they cannot be read

// Of what it has, this thread and those it makes later keep these, or all but these, for good: no program that they
// execute gets more (PR_SET_NO_NEW_PRIVS).
Status keep_capabilities(std::span<const int> kept);
Status drop_capabilities(std::span<const int> dropped);

// This process, all its threads, and what it starts make no connection to another process any more: the service
// manager, D-Bus and all others that do what they are asked listen on stream sockets (unix(7)).  Datagrams to the
// journal and to the manager's notify socket, and who connects to this process, are not touched.
Status give_up_connections();

} // namespace incident::daemon
