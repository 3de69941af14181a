// Reads the command line of incidentd.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace incident::daemon {

struct Options {
    std::string config;             // "" = the default file, if there is one
    std::vector<std::string> rules; // empty = the default directories
    std::string state = "/var/lib/incidentd";
    bool check = false;
    bool foreground = false; // log to the terminal with times, as a person reads it
};

// nullopt: the process must exit with `status` (after help, the version, or a usage error on stderr).
std::optional<Options> parse_options(int argc, char **argv, int &status);

} // namespace incident::daemon
