// incidentd: wires options, logging and the daemon together.
#include "daemon/os/log_sink.h"
#include "daemon/os/reserve.h"
#include "daemon/service/check.h"
#include "daemon/service/daemon.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <memory>

namespace {

// The journal adds time and name itself; a person at a terminal wants them.
void set_up_log(bool foreground) {
    if (::isatty(STDERR_FILENO))
        spdlog::set_default_logger(spdlog::stderr_color_mt("incidentd"));
    else
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("incidentd", std::make_shared<incident::daemon::LogSink>(STDERR_FILENO)));
    spdlog::set_pattern(foreground ? "%H:%M:%S.%e %^%l%$ %v" : "%v");
}

} // namespace

int main(int argc, char **argv) {
    int status = 0;
    const auto options = incident::daemon::parse_options(argc, argv, status);
    if (!options)
        return status;
    if (options->check)
        return incident::daemon::check(*options);
    set_up_log(options->foreground);
    incident::daemon::reserve_stack();
    incident::daemon::share_arenas();
    incident::daemon::hold_memory_reserve();
    ::umask(0027); // what is made here says its mode itself, with a group's rights at most
    auto daemon = incident::daemon::Daemon::start(*options);
    if (!daemon) {
        spdlog::critical("incidentd: {}", daemon.error().what);
        return 1;
    }
    if (const auto ran = (*daemon)->run(); !ran) {
        spdlog::critical("incidentd: {}", ran.error().what);
        return 1;
    }
    return 0;
}
