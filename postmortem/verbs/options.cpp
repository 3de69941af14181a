#include "postmortem/verbs/options.h"

#include "capture/os/number.h"
#include "postmortem/terminal/times.h"

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
        target = capture::whole_number<std::uint64_t>(given);
        return target ? Status() : fail(fmt::format("'{}' is not a whole number", given));
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
