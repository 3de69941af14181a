// Starts a template unit for each incident ([hook] unit): systemd's manager is asked, over
// its private socket, so that what runs is the administrator's unit with its own sandbox,
// never a child of this process.
#pragma once

#include "capture/os/result.h"
#include "daemon/os/event_loop.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace incident::daemon {

struct HookCounters {
    std::uint64_t started = 0, failed = 0, suppressed = 0; // suppressed: beyond [hook] per_hour
};

// "NAME@.service" with the instance in it, escaped as systemd.unit(5) says; '/' becomes '-'.
std::string hook_unit(const std::string &unit, const std::string &instance);

class Hook {
public:
    // unit "": no hook.  address: of the manager, a D-Bus server address.
    Hook(std::string unit, std::uint32_t per_hour, std::string address = "unix:path=/run/systemd/private");
    ~Hook();
    Hook(const Hook &) = delete;
    Hook &operator=(const Hook &) = delete;

    // Answers come to the loop.
    void attach(EventLoop &loop) { loop_ = &loop; }
    // Asks for the incident's unit; a refusal is logged and counted when it comes.
    void start(const std::string &incident, std::uint64_t now_ns);
    // Waits until all are answered; at most that long.
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
    std::deque<std::uint64_t> hour_; // when those of the last hour were asked for
    std::uint64_t unanswered_ = 0;
    HookCounters counters_;
};

} // namespace incident::daemon
