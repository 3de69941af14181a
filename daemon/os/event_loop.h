// An event loop (sd-event): descriptors, signals and one-shot timers with C++ callbacks.
#pragma once

#include "capture/os/result.h"

#include <systemd/sd-event.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <list>
#include <memory>
#include <vector>

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
        void arm_in_unless_armed(std::uint64_t ns); // so that what begins again and again does not put it off
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
    // Before descriptors that it waits for are closed, and their numbers are another's.  Timers may still be armed.
    void forget_descriptors() { descriptors_.clear(); }

private:
    struct Free {
        void operator()(sd_event *event) const { sd_event_unref(event); }
    };
    struct Forget {
        void operator()(sd_event_source *source) const { sd_event_source_disable_unref(source); }
    };
    std::unique_ptr<sd_event, Free> event_;
    std::list<Callback> callbacks_; // a list, because sources point at its elements
    std::vector<std::unique_ptr<sd_event_source, Forget>> descriptors_;
};

} // namespace incident::daemon
