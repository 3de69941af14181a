#include "postmortem/doctor/failed_units.h"

#include <systemd/sd-bus.h>
#include <unistd.h>

#include <memory>

namespace incident::postmortem::doctor {

namespace {

constexpr std::uint64_t patience_us = 5'000'000;

struct BusEnd {
    void operator()(sd_bus *bus) const { sd_bus_flush_close_unref(bus); }
};
struct MessageEnd {
    void operator()(sd_bus_message *message) const { sd_bus_message_unref(message); }
};
using Bus = std::unique_ptr<sd_bus, BusEnd>;
using Message = std::unique_ptr<sd_bus_message, MessageEnd>;

std::unexpected<Error> failed(std::string_view what, int result) {
    return fail(Error::system(what, -result));
}

// systemd's own socket where we may: a host may have no D-Bus daemon.
Result<Bus> connect() {
    sd_bus *made = nullptr;
    int done = 0;
    if (::geteuid() == 0 && ::access("/run/systemd/private", F_OK) == 0) {
        done = sd_bus_new(&made);
        Bus bus(made);
        if (done >= 0)
            done = sd_bus_set_address(bus.get(), "unix:path=/run/systemd/private");
        if (done >= 0)
            done = sd_bus_start(bus.get());
        if (done < 0)
            return failed("cannot talk to systemd", done);
        return bus;
    }
    done = sd_bus_open_system(&made);
    if (done < 0)
        return failed("cannot talk to systemd over D-Bus", done);
    return Bus(made);
}

Result<Message> ask(sd_bus *bus) {
    sd_bus_message *made = nullptr;
    int done = sd_bus_message_new_method_call(bus, &made, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                              "org.freedesktop.systemd1.Manager", "ListUnitsByPatterns");
    const Message question(made);
    if (done >= 0)
        done = sd_bus_message_append(question.get(), "asas", 1, "failed", 4, "incidentd*", "incident-hook@*",
                                     "systemd-coredump*", "systemd-journald*");
    if (done < 0)
        return failed("cannot ask systemd", done);
    sd_bus_message *reply = nullptr;
    done = sd_bus_call(bus, question.get(), patience_us, nullptr, &reply);
    if (done < 0)
        return failed("systemd does not answer", done);
    return Message(reply);
}

} // namespace

Result<std::vector<std::string>> failed_units_of_systemd(bool booted) {
    if (!booted)
        return fail("systemd does not run this host");
    const auto bus = connect();
    if (!bus)
        return fail(bus.error());
    const auto reply = ask(bus->get());
    if (!reply)
        return fail(reply.error());
    // Of each: name, description, load, active and sub state, following, path, job's id, type and path
    // (org.freedesktop.systemd1(5)).
    std::vector<std::string> names;
    int done = sd_bus_message_enter_container(reply->get(), SD_BUS_TYPE_ARRAY, "(ssssssouso)");
    while (done >= 0) {
        const char *name = nullptr, *text = nullptr;
        std::uint32_t job = 0;
        done = sd_bus_message_read(reply->get(), "(ssssssouso)", &name, &text, &text, &text, &text, &text, &text, &job,
                                   &text, &text);
        if (done <= 0)
            break;
        names.emplace_back(name);
    }
    if (done < 0)
        return failed("systemd's answer", done);
    return names;
}

} // namespace incident::postmortem::doctor
