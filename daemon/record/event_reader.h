// Moves the events from the ring buffer into memory, on a thread of its own.  Without it, a storm of 50 crashes would
// fill the ring buffer while the event loop handles the first.  The memory has a limit, see EventQueue; when it is
// reached by what may not be dropped, events wait in the ring buffer, and the kernel side counts those that find no
// room there.
#pragma once

#include "daemon/record/event_queue.h"
#include "daemon/record/recorder.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace incident::daemon {

class EventReader {
public:
    // limit: how many bytes of events are kept in memory.  The recorder must outlive this object.
    static Result<std::unique_ptr<EventReader>> start(Recorder &recorder, std::size_t limit);
    ~EventReader();

    int fd() const { return ready_.get(); } // readable when events wait
    // Returns the next event of the user whose turn it is; none: the ring buffer is empty too.
    std::optional<std::vector<std::uint8_t>> next();
    std::uint64_t dropped() const; // events, because the memory was full

private:
    EventReader(Recorder &recorder, std::size_t limit, UniqueFd ready, UniqueFd stop);
    void run();
    void fill(std::size_t most); // takes at most so many events; the mutex is held

    Recorder &recorder_;
    UniqueFd ready_, stop_;
    mutable std::mutex mutex_;
    std::condition_variable room_;
    EventQueue events_;
    std::size_t peak_ = 0; // bytes, since it was last empty
    bool stopping_ = false;
    std::thread thread_;
};

} // namespace incident::daemon
