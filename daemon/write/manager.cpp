#include "daemon/write/manager.h"

#include <fmt/format.h>
#include <systemd/sd-bus.h>

#include <array>

namespace incident::daemon {

namespace {

constexpr std::uint64_t patience_us = 5'000'000;

using Instance = std::array<char, 256>;

bool stands_for_itself(char c, bool first) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == ':' || c == '_' ||
           (c == '.' && !first);
}

struct Close {
    void operator()(sd_bus *bus) const { sd_bus_close_unref(bus); }
};

// The manager's private socket speaks D-Bus without a bus: no daemon between, no names.  A connection for each request,
// for they are few, and managers restart (systemctl daemon-reexec).
Status ask(const std::string &address, const std::string &unit) {
    sd_bus *made = nullptr;
    int error = sd_bus_new(&made);
    const std::unique_ptr<sd_bus, Close> bus(made);
    if (error >= 0)
        error = sd_bus_set_address(bus.get(), address.c_str());
    if (error >= 0)
        error = sd_bus_set_method_call_timeout(bus.get(), patience_us);
    if (error >= 0)
        error = sd_bus_start(bus.get());
    if (error < 0)
        return fail(Error::system("connecting to systemd", -error));
    sd_bus_error said = SD_BUS_ERROR_NULL;
    error =
        sd_bus_call_method(bus.get(), "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                           "org.freedesktop.systemd1.Manager", "StartUnit", &said, nullptr, "ss", unit.c_str(), "fail");
    Error why{said.message ? said.message : said.name ? said.name : "", 0};
    sd_bus_error_free(&said);
    if (error >= 0)
        return {};
    return fail(why.what.empty() ? Error::system("asking systemd", -error) : std::move(why));
}

} // namespace

// systemd.unit(5), "String escaping for inclusion in unit names"
std::string unit_of_instance(const std::string &unit, const std::string &instance) {
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

Result<std::unique_ptr<Manager>> Manager::start(const std::string &unit, const std::string &address) {
    const Servant::Role role{.name = "incidentd-hook",
                             .capabilities = {},
                             .connects = true,
                             .needs = nullptr,
                             .request_bytes = sizeof(Instance),
                             .patience = std::chrono::seconds(10)};
    auto servant = Servant::start(
        role, [unit, address](std::span<const char> request, const UniqueFd &, bool &) -> Servant::Answer {
            const std::string_view instance(request.data(), request.size());
            const auto asked =
                ask(address, unit_of_instance(unit, std::string(instance.substr(0, instance.find('\0')))));
            if (!asked)
                return fail(asked.error());
            return std::vector<UniqueFd>{};
        });
    if (!servant)
        return fail(servant.error());
    return std::unique_ptr<Manager>(new Manager(std::move(*servant)));
}

Status Manager::start_unit(const std::string &instance) {
    Instance request{};
    if (instance.size() >= request.size())
        return fail("the name of the instance is too long");
    instance.copy(request.data(), instance.size());
    if (const auto answer = servant_->ask(request); !answer)
        return fail(answer.error());
    return {};
}

} // namespace incident::daemon
