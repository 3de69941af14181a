// Starts a template unit for each incident ([hook] unit), so that the administrator's unit runs in its own sandbox and
// not as a child of this process.
#pragma once

#include "capture/os/result.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace incident::daemon {

struct HookCounters {
    std::uint64_t started = 0, failed = 0, suppressed = 0; // suppressed: more than [hook] per_hour allows
};

class Hook {
public:
    // Starts the unit of an incident, and may take seconds for it.
    using StartUnit = std::function<Status(const std::string &incident)>;
    // unit: "" if there is no hook.
    Hook(std::string unit, std::uint32_t per_hour, StartUnit start_unit);
    ~Hook(); // of what waits nothing is started any more
    Hook(const Hook &) = delete;
    Hook &operator=(const Hook &) = delete;

    // Has the unit started for the incident.  A refusal is logged and counted when it comes.
    // user: whose incident it is, if that is known; no user takes all starts of the hour (rules/model/hourly_share.h).
    void start(const std::string &incident, std::optional<std::uint32_t> user, std::uint64_t now_ns);
    // Waits until all have been started, at most so long.
    void finish(std::chrono::nanoseconds patience);

    bool on() const { return !unit_.empty(); }
    const std::string &unit() const { return unit_; }
    HookCounters counters() const;

private:
    void run();

    std::string unit_;
    std::uint32_t per_hour_;
    StartUnit start_unit_;
    struct Start {
        std::uint64_t at_ns;
        std::optional<std::uint32_t> user;
    };
    std::deque<Start> hour_; // the units that were requested within the last hour

    mutable std::mutex mutex_; // of all that follows
    std::condition_variable more_, done_;
    std::deque<std::string> waiting_; // at most [hook] per_hour of an hour
    bool busy_ = false, stop_ = false;
    HookCounters counters_;
    std::thread thread_;
};

} // namespace incident::daemon
