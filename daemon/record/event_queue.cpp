#include "daemon/record/event_queue.h"

#include "rules/model/user.h"

#include <cstddef>
#include <cstring>

namespace incident::daemon {

namespace {

template <typename T> std::optional<T> at(std::span<const std::uint8_t> bytes, std::size_t offset) {
    if (bytes.size() < offset + sizeof(T))
        return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof(T));
    return value;
}

// The user id in an event, where its kind has one.
std::optional<std::uint32_t> uid_in(std::uint32_t kind, std::span<const std::uint8_t> bytes) {
    switch (kind) {
    case bpf::EVENT_DEATH:
    case bpf::EVENT_SIGNAL:
    case bpf::EVENT_SNAPSHOT:
        return at<std::uint32_t>(bytes, offsetof(bpf::death_event, uid));
    case bpf::EVENT_WATCH:
        return at<std::uint32_t>(bytes, offsetof(bpf::watch_event, key) + offsetof(bpf::watch_key, uid));
    case bpf::EVENT_TRIGGER:
    case bpf::EVENT_STARTED:
    case bpf::EVENT_PERMIT:
        return at<std::uint32_t>(bytes, offsetof(bpf::trigger_head, key) + offsetof(bpf::watch_key, uid));
    default:
        return std::nullopt;
    }
}

// Without these an incident says less, or does not happen; no death goes unnoticed.
bool may_be_dropped(std::uint32_t kind, std::span<const std::uint8_t> bytes) {
    switch (kind) {
    case bpf::EVENT_TRIGGER: // a signal that was sent must be told of
        return at<std::uint16_t>(bytes, offsetof(bpf::trigger_head, dumped)).value_or(0) == 0;
    case bpf::EVENT_THREAD:
    case bpf::EVENT_MAPS:
    case bpf::EVENT_POINTERS:
    case bpf::EVENT_RETURNS:
        return true;
    default:
        return false;
    }
}

} // namespace

capture::Loss dropped_events(std::uint64_t count) {
    return {"events in memory", "too many waited to be handled: those of the user who had most gave way", count};
}

void EventQueue::push(std::span<const std::uint8_t> event) {
    const auto kind = at<std::uint32_t>(event, offsetof(bpf::event_header, kind)).value_or(0);
    const auto tgid = at<std::uint32_t>(event, offsetof(bpf::event_header, tgid)).value_or(0);
    Process &process = processes_[tgid];
    if (process.waiting == 0) { // else it would overtake, or be overtaken by, what waits
        auto uid = uid_in(kind, event);
        if (!uid && !process.user)
            uid = uid_of_(tgid);
        if (uid || !process.user)
            process.user = rules::user_of(uid.value_or(0)); // the host's own are root's
    }
    ++process.waiting;
    queue_.push(*process.user, {{event.begin(), event.end()}, tgid}, may_be_dropped(kind, event) ? event.size() : 0);
    bytes_ += event.size();
    while (bytes_ >= limit_) {
        const auto dropped = queue_.drop_newest(queue_.heaviest());
        if (!dropped)
            break;
        taken(*dropped);
        ++dropped_;
    }
}

std::optional<EventQueue::Bytes> EventQueue::pop() {
    auto next = queue_.pop();
    if (!next)
        return std::nullopt;
    taken(*next);
    return std::move(next->bytes);
}

void EventQueue::taken(const Event &event) {
    bytes_ -= event.bytes.size();
    const auto process = processes_.find(event.tgid);
    if (--process->second.waiting == 0 && processes_.size() > most_idle)
        processes_.erase(process);
}

} // namespace incident::daemon
