// The events that wait in memory to be handled.  Users take turns, so that one user's flood keeps nobody else's events
// waiting; the events of one process stay in their order.  When the memory is full, triggers and captures of the user
// who has most of them are dropped, newest first; what tells of a death is never.
#pragma once

#include "bpf/event.h"
#include "capture/collect/snapshot.h"
#include "daemon/os/fair_queue.h"

#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

namespace incident::daemon {

class EventQueue {
public:
    using Bytes = std::vector<std::uint8_t>;

    // The real user id of a process, as far as it is known; asked when its first event does not say it.
    using UidOf = std::function<std::optional<std::uint32_t>(std::uint32_t tgid)>;

    // limit: of bytes
    EventQueue(std::size_t limit, UidOf uid_of) : limit_(limit), uid_of_(std::move(uid_of)) {}

    void push(std::span<const std::uint8_t> event);
    std::optional<Bytes> pop(); // the next event; none: it is empty

    bool empty() const { return queue_.empty(); }
    bool full() const { return bytes_ >= limit_; } // and nothing can be dropped: read no more
    std::size_t bytes() const { return bytes_; }
    std::uint64_t dropped() const { return dropped_; }

private:
    struct Event {
        Bytes bytes;
        std::uint32_t tgid;
    };
    struct Process {
        std::optional<std::uint32_t> user; // rules::user_of(); none: nobody has said it
        std::size_t waiting = 0;
    };
    static constexpr std::size_t most_idle = 8192; // processes without an event that are remembered

    void taken(const Event &event);

    std::size_t limit_, bytes_ = 0;
    UidOf uid_of_;
    FairQueue<Event> queue_; // what may be dropped weighs its bytes
    std::unordered_map<std::uint32_t, Process> processes_;
    std::uint64_t dropped_ = 0;
};

capture::Loss dropped_events(std::uint64_t count); // as a bundle and the status say it

} // namespace incident::daemon
