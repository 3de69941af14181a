#include "capture/render/render_stack.h"

#include "capture/os/auxv.h"

#include <cstring>

namespace incident::capture {

std::optional<std::uint64_t> stack_word(const ThreadSnapshot &thread, std::uint64_t address) {
    const std::size_t size = thread.event ? word_bytes(isa_of(thread.event->regs)) : sizeof(std::uint64_t);
    for (const StackPiece &piece : thread.stack)
        if (const std::uint64_t at = address - piece.address;
            address >= piece.address && piece.bytes.size() >= size && at <= piece.bytes.size() - size) {
            std::uint64_t word = 0; // the lower bytes come first
            std::memcpy(&word, piece.bytes.data() + at, size);
            return word;
        }
    return std::nullopt;
}

StackWalk walk_stack(const ThreadSnapshot &thread, const Modules &modules) {
    constexpr std::size_t frames_max = 64;
    StackWalk walk{{}, "instruction pointer only", ""};
    if (!thread.event) {
        walk.how = "none";
        walk.stopped = "no registers were captured";
        return walk;
    }
    if (thread.event->is_worker) {
        walk.how = "none";
        walk.stopped = "the kernel has made this thread for io_uring: it never runs in user mode";
        return walk;
    }
    const bpf::user_registers &regs = thread.event->regs;
    const std::uint64_t word = word_bytes(isa_of(regs));
    walk.frames.push_back(regs.ip);
    if (thread.stack.empty()) {
        walk.stopped =
            thread.event->stack_unsent ? "the ring buffer had no room for the stack" : "no stack was captured";
        return walk;
    }
    // A call into nowhere has pushed where it came from, and nothing since.
    if (!modules.executable(UserAddress(regs.ip)))
        if (const auto caller = stack_word(thread, regs.sp); caller && modules.executable(UserAddress(*caller))) {
            walk.frames.push_back(*caller);
            walk.how = "instruction pointer, return address at the stack pointer";
        }

    std::uint64_t frame = regs.bp;
    if (frame < regs.sp || frame % word != 0) {
        walk.stopped = "the frame pointer register does not point into the stack";
        return walk;
    }
    while (walk.frames.size() < frames_max) {
        const auto caller_frame = stack_word(thread, frame);
        const auto caller = stack_word(thread, frame + word);
        if (!caller_frame || !caller) {
            walk.stopped = "beyond the captured bytes of the stack";
            return walk;
        }
        if (!modules.executable(UserAddress(*caller))) {
            walk.stopped = modules.whole() ? "the next return address is not in an executable mapping"
                                           : "the next return address is in no mapping known (maps were not read)";
            return walk;
        }
        if (walk.frames.back() != *caller)
            walk.frames.push_back(*caller);
        walk.how = "frame pointers (may be incomplete)";
        if (*caller_frame == 0) {
            walk.stopped = "the outermost frame pointer; functions without one are missing";
            return walk;
        }
        if (*caller_frame <= frame || *caller_frame % word != 0) {
            walk.stopped = "the frame pointers do not rise";
            return walk;
        }
        frame = *caller_frame;
    }
    walk.stopped = "more than " + std::to_string(frames_max) + " frames";
    return walk;
}

} // namespace incident::capture
