#include "daemon/os/event_loop.h"

#include <csignal>
#include <sys/epoll.h>

namespace incident::daemon {

namespace {

int run_io(sd_event_source *, int, uint32_t, void *callback) {
    (*static_cast<EventLoop::Callback *>(callback))();
    return 0;
}

int run_signal(sd_event_source *, const struct signalfd_siginfo *, void *callback) {
    (*static_cast<EventLoop::Callback *>(callback))();
    return 0;
}

int run_time(sd_event_source *, uint64_t, void *callback) {
    (*static_cast<EventLoop::Callback *>(callback))();
    return 0;
}

Status checked(int error, const char *doing) {
    if (error < 0)
        return fail(Error::system(doing, -error));
    return {};
}

} // namespace

Result<EventLoop> EventLoop::create() {
    EventLoop loop;
    sd_event *event = nullptr;
    if (const int error = sd_event_new(&event); error < 0)
        return fail(Error::system("making an event loop", -error));
    loop.event_.reset(event);
    return loop;
}

Status EventLoop::on_readable(int fd, Callback callback) {
    callbacks_.push_back(std::move(callback));
    sd_event_source *source = nullptr;
    const int error = sd_event_add_io(event_.get(), &source, fd, EPOLLIN, run_io, &callbacks_.back());
    descriptors_.emplace_back(source);
    return checked(error, "watching a descriptor");
}

Status EventLoop::block_signals(std::initializer_list<int> numbers) {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : numbers)
        sigaddset(&set, number);
    if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr))
        return fail(Error::system("blocking signals", error));
    return {};
}

Status EventLoop::on_signal(int number, Callback callback) {
    callbacks_.push_back(std::move(callback));
    return checked(sd_event_add_signal(event_.get(), nullptr, number, run_signal, &callbacks_.back()),
                   "watching a signal");
}

Result<EventLoop::Timer> EventLoop::timer(Callback callback) {
    callbacks_.push_back(std::move(callback));
    Timer timer;
    timer.event_ = event_.get();
    // accuracy 1 µs: the default of 250 ms is for what can wait
    const int error =
        sd_event_add_time(event_.get(), &timer.source_, CLOCK_MONOTONIC, UINT64_MAX, 1, run_time, &callbacks_.back());
    if (error < 0)
        return fail(Error::system("making a timer", -error));
    sd_event_source_set_enabled(timer.source_, SD_EVENT_OFF);
    // The loop owns the source, as it does those added without asking for one.
    sd_event_source_set_floating(timer.source_, 1);
    sd_event_source_unref(timer.source_);
    return timer;
}

void EventLoop::Timer::arm_in(std::uint64_t ns) {
    uint64_t now = 0;
    sd_event_now(event_, CLOCK_MONOTONIC, &now);
    sd_event_source_set_time(source_, now + ns / 1000);
    sd_event_source_set_enabled(source_, SD_EVENT_ONESHOT);
}

void EventLoop::Timer::arm_in_unless_armed(std::uint64_t ns) {
    int enabled = SD_EVENT_OFF; // as it is from the moment when its callback is about to be called
    sd_event_source_get_enabled(source_, &enabled);
    if (enabled == SD_EVENT_OFF)
        arm_in(ns);
}

void EventLoop::Timer::disarm() {
    sd_event_source_set_enabled(source_, SD_EVENT_OFF);
}

void EventLoop::watchdog() {
    sd_event_set_watchdog(event_.get(), true);
}

Status EventLoop::run() {
    return checked(sd_event_loop(event_.get()), "running the event loop");
}

void EventLoop::stop() {
    sd_event_exit(event_.get(), 0);
}

} // namespace incident::daemon
