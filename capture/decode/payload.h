// Shows what a call has sent or received, as bytes from a process.
#pragma once

#include "capture/decode/syscalls.h"

#include <string_view>

namespace incident::capture {

// Puts the text, in quotes and with strace's escapes, in the place of the call's pointer to it: "GET / HTTP/1.1\r\n"…
// The mark behind it stands if there was more than that (not whole).  Of an I/O vector the parts are one text, in
// brackets; a message's stands in its structure, beside its address if that is shown already.
void show_payload(DecodedCall &call, std::string_view text, bool whole);

} // namespace incident::capture
