// Prints a struct sockaddr, as bytes from a process.
#pragma once

#include "capture/decode/syscalls.h"

#include <string>
#include <string_view>

namespace incident::capture {

// AF_INET and so on; AF_UNSPEC if the bytes are too few.
int address_family(std::string_view bytes);

// As strace does: {sa_family=AF_INET, sin_port=htons(5432), sin_addr=inet_addr("10.0.0.2")}.
std::string socket_address_text(std::string_view bytes);

// For people: "10.0.0.2:5432", "[fe80::1]:80", "unix:/run/x.sock", "unix:@name" (abstract), "unix" (nameless),
// "AF_NETLINK pid 0".  A port 0 is left out.
std::string peer_text(std::string_view bytes);

// Puts the text of an address in the place of the call's pointer to it.
void show_address(DecodedCall &call, const std::string &address_text);

} // namespace incident::capture
