// Empties the ring buffer on a thread of its own, into memory: in a storm of crashes it would fill within 50
// of them while the event loop is about the first.  Bounded; beyond, events wait in the ring buffer, and what
// finds no room there is counted by the kernel side.
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
    // limit: bytes of events after which no more are taken.  The recorder must outlive it.
    static Result<std::unique_ptr<EventReader>> start(Recorder &recorder, std::size_t limit);
    ~EventReader();

    int fd() const { return ready_.get(); } // readable when events wait
    // The oldest event that nobody has had; none: the ring buffer is empty as well.
    std::optional<std::vector<std::uint8_t>> next();

private:
    EventReader(Recorder &recorder, std::size_t limit, UniqueFd ready, UniqueFd stop);
    void run();
    void fill(std::size_t most); // so many events; with the mutex held

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
