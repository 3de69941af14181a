#include "daemon/write/hook.h"

#include "daemon/os/clocks.h"
#include "rules/model/hourly_share.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <systemd/sd-bus.h>

#include <algorithm>
#include <cstring>

namespace incident::daemon {

namespace {

constexpr std::uint64_t allowance_window_ns = 3600ull * 1'000'000'000;

bool stands_for_itself(char c, bool first) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ':' || c == '_' ||
           (c == '.' && !first);
}

} // namespace

// systemd.unit(5), "String escaping for inclusion in unit names"
std::string hook_unit(const std::string &unit, const std::string &instance) {
    std::string escaped;
    for (const char c : instance)
        if (c == '/')
            escaped += '-';
        else if (stands_for_itself(c, escaped.empty()))
            escaped += c;
        else
            escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    std::string name = unit;
    return name.insert(name.rfind('@') + 1, escaped);
}

void Hook::Close::operator()(sd_bus *bus) const {
    sd_bus_flush_close_unref(bus);
}

Hook::Hook(std::string unit, std::uint32_t per_hour, std::string address)
    : unit_(std::move(unit)), address_(std::move(address)), per_hour_(per_hour) {}

Hook::~Hook() = default;

void Hook::start(const std::string &incident, std::optional<std::uint32_t> user, std::uint64_t now_ns) {
    if (!on())
        return;
    while (!hour_.empty() && hour_.front().at_ns + allowance_window_ns <= now_ns)
        hour_.pop_front();
    const auto own = user ? std::ranges::count(hour_, user, &Start::user) : 0;
    if (!rules::place_left(per_hour_, hour_.size(), static_cast<std::uint64_t>(own))) {
        ++counters_.suppressed;
        spdlog::warn("{}: no hook: {} in the last hour, {} of them for this user, are the most that [hook] per_hour = "
                     "{} allows",
                     incident, hour_.size(), own, per_hour_);
        return;
    }
    hour_.push_back({now_ns, user});
    const bool connected = bus_ != nullptr;
    auto asked = ask(incident);
    if (!asked) {
        bus_.reset();
        if (connected) // to a manager that has gone since (systemctl daemon-reexec)
            asked = ask(incident);
    }
    if (!asked) {
        ++counters_.failed;
        bus_.reset();
        spdlog::error("{}: {} not started: {}", incident, hook_unit(unit_, incident), asked.error().what);
    }
}

// The manager's private socket speaks D-Bus without a bus: no daemon between, no names.
Status Hook::connect() {
    if (bus_ && sd_bus_is_open(bus_.get()) > 0)
        return {};
    sd_bus *bus = nullptr;
    int error = sd_bus_new(&bus);
    if (error < 0)
        return fail(Error::system("D-Bus", -error));
    bus_.reset(bus);
    error = sd_bus_set_address(bus, address_.c_str());
    if (error >= 0)
        error = sd_bus_start(bus);
    if (error < 0)
        return fail(Error::system("connecting to systemd", -error));
    if (loop_)
        return loop_->on_bus(bus);
    return {};
}

Status Hook::ask(const std::string &incident) {
    if (auto connected = connect(); !connected)
        return connected;
    auto asked = std::make_unique<Asked>(Asked{this, incident});
    sd_bus_slot *slot = nullptr;
    const auto reply = [](sd_bus_message *message, void *data, sd_bus_error *) {
        const sd_bus_error *error = sd_bus_message_get_error(message);
        const auto *question = static_cast<Asked *>(data);
        question->hook->answered(*question, error ? (error->message ? error->message : error->name) : nullptr);
        return 0;
    };
    const int sent = sd_bus_call_method_async(
        bus_.get(), &slot, "org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager",
        "StartUnit", reply, asked.get(), "ss", hook_unit(unit_, incident).c_str(), "fail");
    if (sent < 0)
        return fail(Error::system("asking systemd", -sent));
    sd_bus_slot_set_destroy_callback(slot, [](void *data) { delete static_cast<Asked *>(data); });
    (void)asked.release(); // the slot's, which the connection frees after the answer
    sd_bus_slot_set_floating(slot, 1);
    sd_bus_slot_unref(slot);
    ++unanswered_;
    return {};
}

void Hook::answered(const Asked &asked, const char *error) {
    --unanswered_;
    if (!error) {
        ++counters_.started;
        spdlog::debug("{}: {} started", asked.incident, hook_unit(unit_, asked.incident));
        return;
    }
    ++counters_.failed;
    spdlog::error("{}: {} not started: {}", asked.incident, hook_unit(unit_, asked.incident), error);
}

void Hook::finish(std::uint64_t patience_ns) {
    const std::uint64_t end = clock_ns(CLOCK_MONOTONIC) + patience_ns;
    while (bus_ && unanswered_) {
        const int done = sd_bus_process(bus_.get(), nullptr);
        if (done < 0)
            break;
        const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
        if (done > 0)
            continue;
        if (now >= end || sd_bus_wait(bus_.get(), (end - now) / 1000) < 0)
            break;
    }
    if (unanswered_)
        spdlog::warn("{} starts of {} were not answered", unanswered_, unit_);
}

} // namespace incident::daemon
