// threads.json as text: one thread, one frame, one register set.
#pragma once

#include "postmortem/read/json_view.h"
#include "postmortem/terminal/output.h"

#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

// "python3[1234]", printable.
std::string thread_title(JsonView thread);
// Whether it is the one the incident happened in.
bool is_triggers_thread(JsonView incident, JsonView thread);
// What a thread of the bundle is to the incident: "crashed" only where a fatal signal hit it, "exited", "triggered"
// (what it did made the rule fire), else "thread".
std::string_view thread_role(JsonView incident, JsonView thread);
// "in futex(0x7f…, FUTEX_WAIT) for 1.2 s", "after close(3) = 0"; "" where nothing is known.
std::string thread_call(JsonView thread);
// "#0  0x00007f… raise+0x12 (/lib/…/libc.so.6) at raise.c:26"
std::string frame_line(std::size_t number, JsonView frame);
// User frames, one line each, at most `most`; then how they were unwound and what is cut or missing.
std::vector<std::string> stack_lines(JsonView thread, std::size_t most);
std::vector<std::string> kernel_stack_lines(JsonView thread);
// Four registers a line.
std::vector<std::string> register_lines(JsonView thread);

} // namespace incident::postmortem
