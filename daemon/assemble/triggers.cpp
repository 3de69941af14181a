#include "daemon/assemble/triggers.h"

#include "capture/decode/syscalls.h"
#include "daemon/os/tracefs.h"
#include "daemon/plan/syscall_classes.h"

#include <algorithm>
#include <cerrno>

namespace incident::daemon {

namespace {

// blk_status_t → errno: block/blk-core.c, blk_errors.
int error_of(std::uint32_t status) {
    constexpr int errors[] = {0,          // BLK_STS_OK
                              EOPNOTSUPP, // BLK_STS_NOTSUPP
                              ETIMEDOUT,  // BLK_STS_TIMEOUT
                              ENOSPC,     // BLK_STS_NOSPC
                              ENOLINK,    // BLK_STS_TRANSPORT
                              EREMOTEIO,  // BLK_STS_TARGET
                              EBADE,      // BLK_STS_NEXUS, BLK_STS_RESV_CONFLICT
                              ENODATA,    // BLK_STS_MEDIUM
                              EILSEQ,     // BLK_STS_PROTECTION
                              ENOMEM};    // BLK_STS_RESOURCE
    constexpr std::uint32_t again = 12;   // BLK_STS_AGAIN
    return status < std::size(errors) ? errors[status] : status == again ? EAGAIN : EIO;
}

std::optional<Occurrence> of_syscall(const bpf::syscall_trigger &event) {
    Occurrence made;
    made.event.what = rules::SyscallEvent{capture::syscall_name(event.nr, event.flags & bpf::SYSCALL_COMPAT), event.ret,
                                          event.duration_ns < NO_DURATION ? event.duration_ns : 0};
    made.trigger = capture::SyscallTrigger{event};
    return made;
}

std::optional<Occurrence> of_blocked(bpf::blocked_trigger event) {
    Occurrence made;
    event.kernel_frames = std::min<__u32>(event.kernel_frames, KERNEL_FRAMES);
    event.waker_kernel_frames = std::min<__u32>(event.waker_kernel_frames, KERNEL_FRAMES);
    event.waker_user_frames = std::min<__u32>(event.waker_user_frames, KERNEL_FRAMES);
    const bool idle = event.nr >= 0 && is_idle_call(event.nr, event.syscall_flags & bpf::SYSCALL_COMPAT);
    made.event.what = rules::BlockedEvent{event.until_ns - std::min(event.until_ns, event.from_ns), false, idle, 0};
    made.trigger = capture::BlockedTrigger{event, false, idle, 0};
    return made;
}

std::optional<Occurrence> of_exit(const bpf::exit_trigger &event) {
    Occurrence made;
    made.event.what = rules::ExitEvent{event.status & 0xff, 0};
    made.trigger = capture::ExitTrigger{event.status & 0xff};
    return made;
}

std::optional<Occurrence> of_reclaim(bpf::reclaim_trigger event) {
    Occurrence made;
    event.kernel_frames = std::min<__u32>(event.kernel_frames, KERNEL_FRAMES);
    made.event.what = rules::ReclaimEvent{event.cgroup != 0, event.duration_ns};
    capture::ReclaimTrigger trigger;
    trigger.last = event;
    made.trigger = std::move(trigger);
    return made;
}

std::optional<Occurrence> of_block_io(bpf::block_io_trigger event) {
    Occurrence made;
    event.disk[sizeof(event.disk) - 1] = 0;
    const int error = error_of(event.status);
    made.event.what = rules::BlockIoEvent{event.disk, event.done_ns - std::min(event.done_ns, event.issued_ns), error,
                                          event.operation != 0};
    made.trigger = capture::BlockIoTrigger{event, error};
    return made;
}

// Only by the very conditions it was made for, which stand for the layout of the record as well.  The engine tries each
// condition's filter again, so only those whose bit passed are asked.
std::vector<Occurrence> of_tracepoint(const bpf::tracepoint_trigger &event, const RuleHistory &history,
                                      const TracepointNames &tracepoints) {
    std::vector<Occurrence> all;
    const auto hit = tracepoints(event.tracepoint);
    if (!hit)
        return all;
    const std::size_t length = std::min<std::size_t>(event.length, sizeof(event.record));
    const std::vector<std::uint8_t> record(event.record, event.record + length);
    const auto *format = parsed_format(hit->category, hit->name);
    const std::string fields = format ? rules::describe_record(*format, record) : std::string();
    for (const auto &[rule, condition] : history.conditions(event.t.generation, event.t.rules)) {
        const auto *what = std::get_if<rules::TracepointCondition>(&rule->conditions[condition].what);
        if (!what || what->category != hit->category || what->name != hit->name)
            continue;
        Occurrence made;
        made.event.what = rules::TracepointEvent{rule->name, condition, record};
        made.trigger = capture::TracepointTrigger{what->category, what->name, what->filter_text, fields, record, {}};
        all.push_back(std::move(made));
    }
    return all;
}

std::optional<Occurrence> of_signal(const bpf::signal_trigger &event) {
    Occurrence made;
    const bpf::signal_record &signal = event.signal;
    rules::SignalEvent what{.number = signal.number, .fatal = false, .from_kernel = signal.code > 0};
    if (!what.from_kernel) {
        what.sender_pid = signal.sender_tgid;
        what.sender_uid = signal.sender_uid;
        what.sender_comm = text_of(signal.sender_comm);
    }
    made.event.what = std::move(what);
    made.trigger = capture::SignalTrigger{signal};
    return made;
}

template <typename T>
std::optional<Occurrence> decoded(std::span<const std::uint8_t> bytes, std::optional<Occurrence> (*make)(T)) {
    const auto event = event_of<std::remove_cvref_t<T>>(bytes);
    return event ? make(*event) : std::nullopt;
}

} // namespace

std::vector<Occurrence> occurrences_of(std::span<const std::uint8_t> bytes, FactsCache &facts,
                                       const RuleHistory &history, const TracepointNames &tracepoints) {
    std::vector<Occurrence> all;
    const auto head = event_of<bpf::trigger_head>(bytes);
    if (!head)
        return all;
    std::optional<std::vector<std::string>> only;
    if (head->generation != history.generation()) {
        only = history.still(head->generation, head->rules);
        if (only->empty() && !head->dumped)
            return all;
    }
    std::optional<Occurrence> made;
    switch (head->kind) {
    case bpf::TRIGGER_SYSCALL:
        made = decoded(bytes, of_syscall);
        break;
    case bpf::TRIGGER_BLOCKED:
        made = decoded(bytes, of_blocked);
        break;
    case bpf::TRIGGER_EXIT:
        made = decoded(bytes, of_exit);
        break;
    case bpf::TRIGGER_RECLAIM:
        made = decoded(bytes, of_reclaim);
        break;
    case bpf::TRIGGER_BLOCK_IO:
        made = decoded(bytes, of_block_io);
        break;
    case bpf::TRIGGER_TRACEPOINT:
        if (const auto event = event_of<bpf::tracepoint_trigger>(bytes))
            all = of_tracepoint(*event, history, tracepoints);
        break;
    case bpf::TRIGGER_SIGNAL:
        made = decoded(bytes, of_signal);
        break;
    default: // no other kinds are sent
        break;
    }
    if (made)
        all.push_back(std::move(*made));
    for (Occurrence &one : all) {
        one.event.t_ns = head->h.t_ns;
        one.event.process = facts.of(*head);
        one.event.only = only;
        one.subject = head->h;
        one.comm = text_of(head->comm);
        one.captured = head->captured != 0;
        one.dumped = static_cast<int>(head->dumped);
        if (one.dumped)
            one.dumped_by = history.was(head->generation, head->dump_bit);
    }
    return all;
}

} // namespace incident::daemon
