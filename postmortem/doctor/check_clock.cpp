// Times in an incident are compared with other hosts' logs, and each event costs a reading of the clock.
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"

#include <fmt/format.h>

namespace incident::postmortem::doctor {

Findings check_clock(const Host &host) {
    const auto synchronized = host.clock_synchronized();
    if (!synchronized)
        return {unknown("the kernel does not say whether it is (adjtimex(2))")};
    if (!*synchronized)
        return {warn("nobody keeps it: the kernel calls it unsynchronized",
                     "an incident's times do not fit other hosts' logs",
                     host.install("systemd-timesyncd", "chrony") + " && timedatectl set-ntp true")};
    return {ok("kept in time")};
}

Findings check_clocksource(const Host &host) {
    const std::string directory = "/sys/devices/system/clocksource/clocksource0/";
    const auto current = host.read(directory + "current_clocksource");
    if (!current)
        return {unknown(current.error().what)};
    // Read over a bus, a microsecond or more each time.
    if (*current == "hpet" || *current == "acpi_pm") {
        const auto all = host.read(directory + "available_clocksource");
        const bool tsc = all && (" " + *all + " ").find(" tsc ") != std::string::npos;
        return {warn(*current + " is slow to read", "each recorded event costs a microsecond or more",
                     tsc ? fmt::format("echo tsc > {}current_clocksource", directory)
                         : "journalctl -k --grep 'clocksource|tsc'   # why the kernel does not trust the TSC")};
    }
    if (*current == "jiffies" || *current == "refined-jiffies")
        return {bad(*current + " has a resolution of milliseconds", "the order of events is lost",
                    "journalctl -k --grep clocksource")};
    return {ok(*current)};
}

} // namespace incident::postmortem::doctor
