#include "daemon/write/hook.h"

#include "daemon/write/manager.h"
#include "rules/model/hourly_share.h"

#include <spdlog/spdlog.h>

#include <algorithm>

namespace incident::daemon {

namespace {

constexpr std::uint64_t allowance_window_ns = 3600ull * 1'000'000'000;

} // namespace

Hook::Hook(std::string unit, std::uint32_t per_hour, StartUnit start_unit)
    : unit_(std::move(unit)), per_hour_(per_hour), start_unit_(std::move(start_unit)) {
    if (on())
        thread_ = std::thread([this] { run(); });
}

Hook::~Hook() {
    {
        const std::lock_guard lock(mutex_);
        stop_ = true;
    }
    more_.notify_one();
    if (thread_.joinable())
        thread_.join();
}

void Hook::start(const std::string &incident, std::optional<std::uint32_t> user, std::uint64_t now_ns) {
    if (!on())
        return;
    while (!hour_.empty() && hour_.front().at_ns + allowance_window_ns <= now_ns)
        hour_.pop_front();
    const auto own = user ? std::ranges::count(hour_, user, &Start::user) : 0;
    const std::lock_guard lock(mutex_);
    if (!rules::place_left(per_hour_, hour_.size(), static_cast<std::uint64_t>(own))) {
        ++counters_.suppressed;
        spdlog::warn("{}: no hook: {} in the last hour, {} of them for this user, are the most that [hook] per_hour = "
                     "{} allows",
                     incident, hour_.size(), own, per_hour_);
        return;
    }
    hour_.push_back({now_ns, user});
    waiting_.push_back(incident);
    more_.notify_one();
}

void Hook::run() {
    std::unique_lock lock(mutex_);
    for (;;) {
        more_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
        if (stop_)
            return;
        const std::string incident = std::move(waiting_.front());
        waiting_.pop_front();
        busy_ = true;
        lock.unlock();
        const auto started = start_unit_(incident);
        lock.lock();
        busy_ = false;
        ++(started ? counters_.started : counters_.failed);
        if (started)
            spdlog::debug("{}: {} started", incident, unit_of_instance(unit_, incident));
        else
            spdlog::error("{}: {} not started: {}", incident, unit_of_instance(unit_, incident), started.error().what);
        done_.notify_all();
    }
}

void Hook::finish(std::chrono::nanoseconds patience) {
    std::unique_lock lock(mutex_);
    if (!done_.wait_for(lock, patience, [this] { return waiting_.empty() && !busy_; }))
        spdlog::warn("{} starts of {} were not answered", waiting_.size() + (busy_ ? 1 : 0), unit_);
}

HookCounters Hook::counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
}

} // namespace incident::daemon
