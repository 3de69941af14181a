#include "daemon/record/thread_limits.h"

#include <algorithm>

namespace incident::daemon {

void keep_wanted(const rules::Context &context, capture::ThreadSnapshot &thread) {
    if (thread.stack.size() > context.stack_bytes) {
        thread.stack.resize(context.stack_bytes);
        thread.event->stack_length = context.stack_bytes;
    }
    if (thread.event)
        thread.event->stack_wanted = context.stack_bytes;
    if (thread.rings && !context.files) {
        thread.rings->paths_left_out +=
            static_cast<std::uint64_t>(std::ranges::count_if(thread.rings->opens, &capture::OpenEntry::kept));
        thread.rings->opens.clear();
    }
    if (thread.rings && !context.memory) {
        thread.rings->memory_left_out += thread.rings->memory.size();
        thread.rings->memory.clear();
    }
    // Another rule may have asked for the payload of this process's calls, or for more of it.
    if (thread.rings && !context.payload)
        thread.rings->payloads.clear();
    else if (thread.rings)
        for (auto &payload : thread.rings->payloads)
            payload.bytes.resize(std::min<std::size_t>(payload.bytes.size(), context.payload));
}

} // namespace incident::daemon
