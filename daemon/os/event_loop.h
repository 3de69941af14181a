// An event loop (sd-event): descriptors, signals and one-shot timers with C++ callbacks.
#pragma once

#include "capture/os/result.h"

#include <systemd/sd-event.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>

namespace incident::daemon {

class EventLoop {
public:
    using Callback = std::function<void()>;

    static Result<EventLoop> create();
    Status on_readable(int fd, Callback callback);
    static Status block_signals(std::initializer_list<int> numbers); // for this thread and those it starts later
    Status on_signal(int number, Callback callback);                 // the signal must be blocked
    // A timer that is off until it is armed.
    class Timer {
    public:
        void arm_in(std::uint64_t ns);
        void disarm();

    private:
        friend class EventLoop;
        sd_event_source *source_ = nullptr;
        sd_event *event_ = nullptr;
    };
    Result<Timer> timer(Callback callback);
    void watchdog(); // feeds systemd's watchdog, if it is on
    Status run();
    void stop();

private:
    struct Free {
        void operator()(sd_event *event) const { sd_event_unref(event); }
    };
    std::unique_ptr<sd_event, Free> event_;
    std::list<Callback> callbacks_; // a list, because sources point at its elements
};

} // namespace incident::daemon
