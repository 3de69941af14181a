#include "daemon/record/thread_limits.h"

#include <algorithm>

namespace incident::daemon {

void keep_those_of_calls(capture::ThreadRings &rings) {
    const auto is_of_another = [&](const auto &extra) {
        return !std::ranges::binary_search(rings.syscalls, extra.start_ns, {}, &bpf::syscall_record::start_ns);
    };
    rings.paths_left_out += static_cast<std::uint64_t>(std::ranges::count_if(
        rings.paths, [&](const capture::CallPath &path) { return path.kept() && is_of_another(path); }));
    std::erase_if(rings.paths, is_of_another);
    std::erase_if(rings.addresses, is_of_another);
    std::erase_if(rings.events, is_of_another);
    std::erase_if(rings.payloads, is_of_another);
}

void keep_wanted(const rules::Context &context, capture::ThreadSnapshot &thread) {
    std::size_t left = context.stack_bytes;
    for (capture::StackPiece &piece : thread.stack) {
        piece.bytes.resize(std::min(piece.bytes.size(), left));
        left -= piece.bytes.size();
    }
    std::erase_if(thread.stack, [](const capture::StackPiece &piece) { return piece.bytes.empty(); });
    if (thread.event)
        thread.event->stack_wanted = context.stack_bytes;
    if (thread.rings && !context.files) {
        thread.rings->paths_left_out +=
            static_cast<std::uint64_t>(std::ranges::count_if(thread.rings->paths, &capture::CallPath::kept));
        thread.rings->paths.clear();
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
