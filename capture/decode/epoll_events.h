// Prints struct epoll_event, as bytes from a process.
#pragma once

#include "capture/decode/syscalls.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace incident::capture {

// As strace does: "{events=EPOLLIN|EPOLLET, data={u32=5, u64=5}}", one after the other; many programs set the lower
// half of data alone.  Bytes of a last event that is not whole are left out.
std::string epoll_events_text(std::string_view bytes);

// Puts the text of the events in the place of the call's pointer to them: of the one that epoll_ctl gives, or of the
// first of as many as epoll_wait and its like have returned (ret), with "…" for those that were not kept.
void show_events(DecodedCall &call, std::string_view bytes, std::int64_t ret);

} // namespace incident::capture
