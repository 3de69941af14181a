#include "daemon/probe/trap_price.h"

#include "daemon/probe/own_code.h"

#include <unistd.h>

namespace incident::daemon {

namespace {

constexpr unsigned trap_rounds = 8, trap_calls = 64;

// A push is emulated, a move is not (arch/x86/kernel/uprobes.c).
[[gnu::naked, gnu::noinline, gnu::noclone]] void begins_with_push() {
    asm("push %rbp\n\tpop %rbp\n\tret");
}
[[gnu::naked, gnu::noinline, gnu::noclone]] void begins_with_move() {
    asm("mov %rdi, %rax\n\tret");
}
// Another one: the probe at the first is still being detached when this one is measured.
[[gnu::naked, gnu::noinline, gnu::noclone]] void has_return_probe() {
    asm("push %rbx\n\tpop %rbx\n\tret");
}

// ns that a probe of that role at its first instruction adds to a call.
Result<std::uint64_t> added(LatencyKernel &kernel, Detacher &detacher, Recorder::UprobeRole role, void (*function)()) {
    const auto offset = own_file_offset(function);
    if (!offset)
        return fail(offset.error());
    const auto call = [function](unsigned) { function(); };
    const std::uint64_t bare = quickest_call(trap_rounds, trap_calls, call);
    const auto pid = static_cast<std::uint32_t>(::getpid());
    auto link = kernel.attach(role, {"/proc/self/exe", *offset, {}, pid}, Recorder::no_probe);
    if (!link)
        return fail(link.error());
    const std::uint64_t probed = quickest_call(trap_rounds, trap_calls, call);
    detacher.drop({std::move(*link)});
    return added_ns(probed, bare);
}

} // namespace

Result<TrapPrice> measure_trap_price(LatencyKernel &kernel, Detacher &detacher) {
    const auto emulated = added(kernel, detacher, Recorder::UprobeRole::LeavePair, begins_with_push);
    if (!emulated)
        return fail(emulated.error());
    const auto stepped = added(kernel, detacher, Recorder::UprobeRole::LeavePair, begins_with_move);
    if (!stepped)
        return fail(stepped.error());
    const auto returned =
        added(kernel, detacher, Recorder::UprobeRole::LeaveCall, has_return_probe); // its entry is a trap as well
    if (!returned)
        return fail(returned.error());
    return TrapPrice{.stepped_ns = *stepped, .returned_ns = added_ns(*returned, *emulated), .emulated_ns = *emulated};
}

} // namespace incident::daemon
