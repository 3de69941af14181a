// Collects the threads of an incident, from their events and, if they sent none, from the recorder's slots.
#include "daemon/assemble/assembly.h"

#include "capture/os/kernel_maps.h"
#include "daemon/facts/facts.h"
#include "daemon/os/clocks.h"
#include "daemon/record/thread_limits.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

namespace incident::daemon {

namespace {

// Which calls of a thread a bundle takes: many of the thread that it is about, and of each other one what is left of a
// number for all of them.  A reader looks at the last; a program can compare the rest.  What came after the trigger
// takes nothing of the past away.
constexpr std::size_t calls_of_subject = 20'000, calls_of_others = 30'000, calls_at_least = 128, calls_after = 1'000;

CallsWanted calls_wanted(const Assembly &assembly, std::uint32_t tid) {
    const auto &process = assembly.input.process;
    const std::size_t others = std::max<std::size_t>({process.threads_expected, process.threads.size(), 2}) - 1;
    const std::size_t of_other = std::max(calls_at_least, calls_of_others / others);
    const bool subject = tid == process.event.h.tid;
    return {.before = subject ? calls_of_subject : of_other,
            .until_ns = process.event.h.t_ns,
            .after = subject ? calls_after : std::min(calls_after, of_other)};
}

// The pages that follow a thread_event; those that are not there were absent.
std::vector<capture::StackPiece> stack_of(const bpf::thread_event &event, std::span<const std::uint8_t> bytes) {
    std::vector<capture::StackPiece> pieces;
    bytes = bytes.first(std::min<std::size_t>(bytes.size(), event.stack_length));
    for (std::size_t i = 0; i < STACK_PAGES_MAX && !bytes.empty(); ++i) {
        const auto page = bytes.first(std::min<std::size_t>(bytes.size(), STACK_PAGE));
        const bool another = i == event.stack_own;
        if (i == 0 || another || event.stack_page[i] != event.stack_page[i - 1] + STACK_PAGE)
            pieces.push_back({event.stack_page[i], {}, i != 0 && another});
        pieces.back().bytes.insert(pieces.back().bytes.end(), page.begin(), page.end());
        bytes = bytes.subspan(page.size());
    }
    return pieces;
}

} // namespace

// The assembly a thread's event belongs to; seen from outside it may belong to several.
Assembly *Assembler::assembly_for(const bpf::thread_event &event) {
    const bool dying = event.role == bpf::ROLE_CRASHED || event.role == bpf::ROLE_SIBLING;
    const auto found = assemblies_.find({process_of(event.h), dying ? 0 : event.h.tid});
    return found == assemblies_.end() ? nullptr : &found->second;
}

void Assembler::on_thread(std::span<const std::uint8_t> bytes) {
    auto event = event_of<bpf::thread_event>(bytes);
    if (!event)
        return;
    tidy(*event);
    const auto stack = stack_of(*event, bytes.subspan(sizeof(bpf::thread_event)));
    std::optional<capture::ReturnProbes> returns;
    if (auto pending = returns_.extract({event->h.tid, {event->h.thread_start_boot_ns}}))
        returns = std::move(pending.mapped());
    if (event->role == bpf::ROLE_LIVING) {
        for (auto &[key, assembly] : assemblies_)
            if (is_of(key, event->h) && !assembly.closed)
                add_thread(assembly, *event, stack, returns);
        return;
    }
    Assembly *assembly = assembly_for(*event);
    if (!assembly || assembly->closed) {
        // Its death event was lost (find_lost will tell), or it came after the deadline.
        const bool pinned = event->role == bpf::ROLE_CRASHED || event->role == bpf::ROLE_SIBLING;
        if (assembly && pinned && event->slot != ~0u)
            recorder_.release(event->slot);
        return;
    }
    add_thread(*assembly, *event, stack, returns);
}

void Assembler::add_thread(Assembly &assembly, const bpf::thread_event &event,
                           const std::vector<capture::StackPiece> &stack,
                           const std::optional<capture::ReturnProbes> &returns) {
    assembly.last_event_ns = clock_.monotonic_ns();
    const bool pinned = event.role == bpf::ROLE_CRASHED || event.role == bpf::ROLE_SIBLING;
    const bool in_context = event.role == bpf::ROLE_TRIGGERED || event.role == bpf::ROLE_SIGNALLED;
    if (!assembly.rule && !assembly.perhaps_oom) {
        if (pinned && event.slot != ~0u)
            recorder_.release(event.slot);
        return;
    }
    if (!capture::program_of(event.h).may_be(capture::program_of(assembly.input.process.event.h)))
        return; // of what the process has executed since
    if (in_context && !std::exchange(assembly.context_expected, false))
        return; // of a later firing, which this bundle tells of (join): registers and stack are another instant's
    auto &threads = assembly.input.process.threads;
    if (const auto known = std::ranges::find(threads, event.h.tid, &capture::ThreadSnapshot::tid);
        known != threads.end()) {
        if (event.role == bpf::ROLE_LIVING)
            return; // its own capture is better
        threads.erase(known);
    }
    capture::ThreadSnapshot thread;
    thread.tid = event.h.tid;
    thread.event = event;
    thread.stack = stack;
    thread.returns = returns;
    if (event.slot == ~0u) {
        if (!event.is_worker)
            thread.missing = "no syscalls: it made none while recorded, or had no ring (see losses)";
    } else {
        thread.rings = recorder_.read(event.slot, event.generation, calls_wanted(assembly, event.h.tid));
        if (!thread.rings)
            thread.missing = "no syscalls: its ring was already used again";
    }
    if (event.slot != ~0u && pinned)
        recorder_.release(event.slot);
    if (assembly.rule)
        keep_wanted(assembly.rule->context, thread);
    if (event.h.tid == assembly.input.process.event.h.tid)
        threads.insert(threads.begin(), std::move(thread));
    else
        threads.push_back(std::move(thread));
}

// The mappings of a dying process; its /proc may be gone by now.
void Assembler::on_maps(std::span<const std::uint8_t> bytes) {
    const auto header = event_of<bpf::event_header>(bytes);
    const auto found = assemblies_.find({process_of(*header), 0});
    if (found == assemblies_.end() || found->second.closed)
        return;
    auto &process = found->second.input.process;
    process.kernel_maps += capture::kernel_maps_text(bytes, process.event, process.kernel_maps_cut);
}

void Assembler::on_pointers(std::span<const std::uint8_t> bytes) {
    const auto header = event_of<bpf::event_header>(bytes);
    const auto found = assemblies_.find({process_of(*header), 0});
    if (found == assemblies_.end() || found->second.closed)
        return;
    auto &windows = found->second.input.process.pointers;
    windows.clear();
    for (std::size_t at = offsetof(bpf::pointers_event, window);
         windows.size() < POINTER_WINDOWS && at + sizeof(bpf::memory_window) <= bytes.size();
         at += sizeof(bpf::memory_window))
        std::memcpy(&windows.emplace_back(), bytes.data() + at, sizeof(bpf::memory_window));
}

// Threads that have a ring but sent no event: what did not fit into the ring buffer, or
// has not come by.
void Assembler::add_silent_threads(Assembly &assembly) {
    auto &process = assembly.input.process;
    const bool fatal = process.event.fatal != 0;
    for (const auto slot : recorder_.slots_of(process_of(process.event.h))) {
        const auto header = recorder_.header(slot);
        const bool known =
            std::ranges::any_of(process.threads, [&](const auto &thread) { return thread.tid == header.tid; });
        if (!known) {
            capture::ThreadSnapshot thread;
            thread.tid = header.tid;
            thread.rings = recorder_.read(slot, header.generation, calls_wanted(assembly, header.tid));
            if (!fatal)
                thread.missing = "no registers: it had no event (see losses)";
            else if (header.captured == 2)
                thread.missing = "no registers and stack: the ring buffer was full";
            else
                thread.missing = "no registers and stack: it had not passed signal delivery by the deadline";
            if (assembly.rule)
                keep_wanted(assembly.rule->context, thread);
            process.threads.push_back(std::move(thread));
        }
        if (fatal)
            recorder_.release(slot);
    }
    const auto trigger = std::ranges::find(process.threads, process.event.h.tid, &capture::ThreadSnapshot::tid);
    if (trigger != process.threads.end())
        std::rotate(process.threads.begin(), trigger, trigger + 1);
    if (process.threads.size() > 1)
        std::ranges::sort(process.threads.begin() + (trigger != process.threads.end() ? 1 : 0), process.threads.end(),
                          {}, &capture::ThreadSnapshot::tid);
}

} // namespace incident::daemon
