// Shows parts of threads.json as text: a thread, a frame, a set of registers.
#pragma once

#include "postmortem/read/json_view.h"
#include "postmortem/terminal/output.h"

#include <string>
#include <string_view>
#include <vector>

namespace incident::postmortem {

// "python3[1234]", printable.
std::string thread_title(JsonView thread);
// True if the incident happened in this thread.
bool is_triggers_thread(JsonView incident, JsonView thread);
// The thread's role in the incident: "crashed" (only if a fatal signal hit it), "exited", "triggered" (its action made
// the rule fire), or "thread".
std::string_view thread_role(JsonView incident, JsonView thread);
// "in futex(0x7f…, FUTEX_WAIT) for 1.2 s", "after close(3) = 0"; "" if nothing is known.
std::string thread_call(JsonView thread);
// What of io_uring it had submitted and was not completed; "" if nothing.
std::string thread_requests(JsonView thread);
// "#0  0x00007f… raise+0x12 (/lib/…/libc.so.6) at raise.c:26"
std::string frame_line(std::size_t number, JsonView frame);
// User frames, one on each line, at most `most`. Then a line says how they were unwound and what is cut or missing.
// Of a panic's frames one line tells, if there are more frames than those.
struct PanicFrames {
    std::string of; // printable; "Rust"
    std::size_t count = 0;
};
std::vector<std::string> stack_lines(JsonView thread, std::size_t most, const PanicFrames &panic = {});
// Those of the thread in which the incident happened, if its verdict says that it panicked.
PanicFrames panic_frames(JsonView incident, JsonView thread);
std::vector<std::string> kernel_stack_lines(JsonView thread);
// All registers, four on each line.
std::vector<std::string> register_lines(JsonView thread);

} // namespace incident::postmortem
