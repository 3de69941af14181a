// Whom the sockets of a process talk to, as its network namespace lists them.
#pragma once

#include "capture/collect/collectors.h"

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace incident::capture {

// The number in "socket:[36721]", the target of a descriptor's link; 0: it is no socket.
std::uint64_t socket_inode(std::string_view target);

// Of a table such as /proc/net/tcp the sockets with these inodes, JSON lines {"inode","target","state"}:
// "TCP 10.0.0.1:41234→10.0.0.2:5432", "TCP 0.0.0.0:80", "UDP 0.0.0.0:53"; state: "ESTABLISHED", "LISTEN" and so on;
// null of a UDP socket that is not connected. protocol: "TCP" or "UDP".  The kernel prints nothing there that a process
// could choose but its numbers.
std::string sockets_in(std::string_view table, std::string_view protocol, const std::set<std::uint64_t> &inodes);

// process/sockets.  process: its directory in /proc.  Reads up to cap bytes of each table.
Outcome collect_sockets(int process, const std::set<std::uint64_t> &inodes, std::uint64_t cap,
                        const Deadline &deadline);

} // namespace incident::capture
