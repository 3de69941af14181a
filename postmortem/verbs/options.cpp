#include "postmortem/verbs/options.h"

#include "postmortem/terminal/escape.h"
#include "postmortem/terminal/times.h"

#include <charconv>
#include <fmt/format.h>

namespace incident::postmortem {

void Options::text(const std::string &names, const std::string &placeholder, std::string &target,
                   const std::string &help) {
    value(names, placeholder, help, [&target](const std::string &given) -> Status {
        target = given;
        return {};
    });
}

void Options::count(const std::string &names, const std::string &placeholder, std::optional<std::uint64_t> &target,
                    const std::string &help) {
    value(names, placeholder, help, [&target](const std::string &given) -> Status {
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), number);
        if (error != std::errc{} || end != given.data() + given.size())
            return fail(fmt::format("'{}' is not a whole number", given));
        target = number;
        return {};
    });
}

void Options::duration(const std::string &names, const std::string &placeholder, std::int64_t &target_ns,
                       const std::string &help) {
    value(names, placeholder, help, [&target_ns](const std::string &given) -> Status {
        const auto parsed = parse_duration(given);
        if (!parsed)
            return fail(parsed.error());
        target_ns = *parsed;
        return {};
    });
}

void Options::id(std::string &target) {
    target = "latest";
    positional("ID", target,
               "bundle: its name, a unique prefix, a PID, its short id, its directory, or latest (the default)");
}

} // namespace incident::postmortem
