// Moves the events from the ring buffer into memory, on a thread of its own.  Without it, a storm of 50 crashes would
// fill the ring buffer while the event loop handles the first.  The memory has a limit; when it is reached, events wait
// in the ring buffer, and the kernel side counts those that find no room there.
#pragma once

#include "daemon/record/recorder.h"

#include <condition_variable>
#include <deque>
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
    // Returns the oldest event that was not returned yet; none: the ring buffer is empty too.
    std::optional<std::vector<std::uint8_t>> next();

private:
    EventReader(Recorder &recorder, std::size_t limit, UniqueFd ready, UniqueFd stop);
    void run();
    void fill(std::size_t most); // takes at most so many events; the mutex is held

    Recorder &recorder_;
    const std::size_t limit_;
    UniqueFd ready_, stop_;
    std::mutex mutex_;
    std::condition_variable room_;
    std::deque<std::vector<std::uint8_t>> events_;
    std::size_t bytes_ = 0, peak_ = 0; // peak: since it was last empty
    bool stopping_ = false;
    std::thread thread_;
};

} // namespace incident::daemon
