#include "daemon/record/event_reader.h"

#include <malloc.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace incident::daemon {

namespace {

constexpr std::size_t worth_giving_back = 4u << 20; // bytes that a storm has left with malloc

constexpr std::size_t at_once = 64; // events: then the caller of next() may have the mutex

// A host in trouble has no CPU left for those who wait their turn, and what it would tell is then lost.
constexpr int niceness = -10;

} // namespace

EventReader::EventReader(Recorder &recorder, std::size_t limit, UniqueFd ready, UniqueFd stop)
    : recorder_(recorder), ready_(std::move(ready)), stop_(std::move(stop)),
      events_(limit,
              [&recorder](std::uint32_t tgid) -> std::optional<std::uint32_t> {
                  const auto entry = recorder.process(tgid);
                  return entry ? std::optional(entry->uid) : std::nullopt;
              }),
      thread_([this] { run(); }) {}

Result<std::unique_ptr<EventReader>> EventReader::start(Recorder &recorder, std::size_t limit) {
    UniqueFd ready(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!ready || !stop)
        return fail(Error::system("eventfd"));
    return std::unique_ptr<EventReader>(new EventReader(recorder, limit, std::move(ready), std::move(stop)));
}

EventReader::~EventReader() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    room_.notify_one();
    ::eventfd_write(stop_.get(), 1);
    thread_.join();
}

void EventReader::fill(std::size_t most) {
    if (events_.full())
        return;
    const auto filled = recorder_.consume([&](std::span<const std::uint8_t> event) {
        events_.push(event);
        return !events_.full() && --most > 0;
    });
    peak_ = std::max(peak_, events_.bytes());
    if (!filled)
        spdlog::error("{}", filled.error().what);
}

void EventReader::run() {
    if (::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), niceness))
        spdlog::debug("{}", Error::system("the ring buffer is read at ordinary priority").what);
    pollfd waited[] = {{recorder_.fd(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    for (;;) {
        ::poll(waited, std::size(waited), -1);
        std::unique_lock lock(mutex_);
        room_.wait(lock, [this] { return stopping_ || !events_.full(); });
        if (stopping_)
            return;
        fill(at_once);
        if (!events_.empty())
            ::eventfd_write(ready_.get(), 1);
    }
}

std::uint64_t EventReader::dropped() const {
    const std::lock_guard lock(mutex_);
    return events_.dropped();
}

std::optional<std::vector<std::uint8_t>> EventReader::next() {
    std::unique_lock lock(mutex_);
    if (events_.empty()) // one that nobody was woken for
        fill(1);
    if (events_.empty()) {
        eventfd_t ignored;
        ::eventfd_read(ready_.get(), &ignored);
        const bool give_back = std::exchange(peak_, 0) >= worth_giving_back;
        lock.unlock();
        if (give_back)
            ::malloc_trim(0);
        return std::nullopt;
    }
    const bool was_full = events_.full();
    auto event = events_.pop();
    if (was_full)
        room_.notify_one();
    return event;
}

} // namespace incident::daemon
