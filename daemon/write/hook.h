// Starts a template unit for each incident ([hook] unit).  It asks systemd's manager over its private socket, so that
// the administrator's unit runs in its own sandbox and not as a child of this process.
#pragma once

#include "capture/os/result.h"
#include "daemon/os/event_loop.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace incident::daemon {

struct HookCounters {
    std::uint64_t started = 0, failed = 0, suppressed = 0; // suppressed: more than [hook] per_hour allows
};

// Puts the instance into "NAME@.service", escaped as systemd.unit(5) says; '/' becomes '-'.
std::string hook_unit(const std::string &unit, const std::string &instance);

class Hook {
public:
    // unit: "" if there is no hook.  address: the D-Bus address of the manager.
    Hook(std::string unit, std::uint32_t per_hour, std::string address = "unix:path=/run/systemd/private");
    ~Hook();
    Hook(const Hook &) = delete;
    Hook &operator=(const Hook &) = delete;

    // The loop receives the answers.
    void attach(EventLoop &loop) { loop_ = &loop; }
    // Asks the manager to start the unit for the incident.  A refusal is logged and counted when it arrives.
    // user: whose incident it is, if that is known; no user takes all starts of the hour (rules/model/hourly_share.h).
    void start(const std::string &incident, std::optional<std::uint32_t> user, std::uint64_t now_ns);
    // Waits until all requests are answered, at most so long.
    void finish(std::uint64_t patience_ns);

    bool on() const { return !unit_.empty(); }
    const std::string &unit() const { return unit_; }
    const HookCounters &counters() const { return counters_; }

private:
    struct Asked {
        Hook *hook;
        std::string incident;
    };
    struct Close {
        void operator()(sd_bus *bus) const;
    };
    Status ask(const std::string &incident);
    Status connect();
    void answered(const Asked &asked, const char *error);

    std::string unit_, address_;
    std::uint32_t per_hour_;
    EventLoop *loop_ = nullptr;
    std::unique_ptr<sd_bus, Close> bus_;
    struct Start {
        std::uint64_t at_ns;
        std::optional<std::uint32_t> user;
    };
    std::deque<Start> hour_; // the units that were requested within the last hour
    std::uint64_t unanswered_ = 0;
    HookCounters counters_;
};

} // namespace incident::daemon
