// Checks whether somebody takes the cores: kernel.core_pattern, and systemd-coredump behind it.
// capture/core/core_precheck.cpp knows what each value means.
#include "capture/core/core_link.h"
#include "postmortem/doctor/checks.h"
#include "postmortem/doctor/host.h"

#include <fmt/format.h>

namespace incident::postmortem::doctor {

namespace {

constexpr const char *handler_sysctls = "/usr/lib/sysctl.d/50-coredump.conf"; // of systemd-coredump's package

std::string no_handler(const std::string &pattern) {
    return capture::no_core_reason({.core_pattern = pattern + "\n"});
}

// The handler's package brings the pattern; something set another one since.
std::string set_pattern(const Host &host) {
    if (!host.exists(handler_sysctls))
        return host.install("systemd-coredump", "systemd");
    return fmt::format("sysctl -p {}   # and see who sets another: grep -r core_pattern /etc/sysctl.conf /etc/sysctl.d",
                       handler_sysctls);
}

} // namespace

Findings check_core_pattern(const Host &host) {
    const auto pattern = host.read("/proc/sys/kernel/core_pattern");
    if (!pattern)
        return {unknown(pattern.error().what)};
    if (const std::string reason = no_handler(*pattern); !reason.empty())
        return {bad(reason, "an incident finds its core by systemd-coredump's journal entry; there is only mini.core",
                    set_pattern(host))};
    const std::string program = pattern->starts_with('|') ? pattern->substr(1, pattern->find(' ') - 1) : "";
    if (!program.empty() && !host.exists(program))
        return {bad(fmt::format("kernel.core_pattern hands cores to {}, which is not there", program),
                    "the kernel throws each core away", host.install("systemd-coredump", "systemd"))};
    return {ok("cores go to systemd-coredump")};
}

Findings check_core_pipe_limit(const Host &host) {
    const auto pattern = host.read("/proc/sys/kernel/core_pattern");
    if (!pattern || !pattern->starts_with('|'))
        return {}; // of no meaning then
    const auto limit = host.read("/proc/sys/kernel/core_pipe_limit");
    if (!limit)
        return {unknown(limit.error().what)};
    if (*limit == "0") // Documentation/admin-guide/sysctl/kernel.rst
        return {warn("kernel.core_pipe_limit is 0",
                     "the kernel does not wait for the handler: /proc of the dead process may be gone before "
                     "systemd-coredump has read it",
                     "sysctl -w kernel.core_pipe_limit=16")};
    return {ok(fmt::format("{} dumps at once; of more the kernel skips the cores, and the bundle says so", *limit))};
}

Findings check_core_socket(const Host &host) {
    const auto pattern = host.read("/proc/sys/kernel/core_pattern");
    if (!pattern || !no_handler(*pattern).empty())
        return {};
    if (const auto sockets = host.read("/proc/1/net/unix"); !sockets)
        return {unknown(sockets.error().what, host.as_root())};
    if (!capture::coredump_socket_listens(host.os()))
        return {bad("nothing listens on /run/systemd/coredump", "systemd-coredump gets no core and writes no entry",
                    "systemctl start systemd-coredump.socket")};
    return {ok("somebody listens on /run/systemd/coredump")};
}

} // namespace incident::postmortem::doctor
