#include "daemon/service/options.h"

#include "daemon/service/rule_files.h"

#include <CLI/CLI.hpp>

#include <iostream>

namespace incident::daemon {

std::optional<Options> parse_options(int argc, char **argv, int &status) {
    Options options;
    CLI::App app("incidentd: flight recorder and core-dump trigger for Linux processes", "incidentd");
    app.add_option("--config", options.config, "configuration file (default " + default_config + ")")
        ->type_name("FILE");
    app.add_option("--rules", options.rules,
                   "directory of rule files, may be repeated, later ones override (default " + default_rule_dirs[0] +
                       ", " + default_rule_dirs[1] + ")")
        ->type_name("DIR")
        ->allow_extra_args(false);
    app.add_option("--state", options.state, "where incidents are kept")->type_name("DIR")->capture_default_str();
    app.add_flag("--check", options.check, "check configuration and rules, print what is wrong, and exit");
    app.add_flag("--foreground", options.foreground, "log to the terminal");
    app.set_version_flag("--version", "incidentd " INCIDENTD_VERSION);
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp &) {
        std::cout << app.help();
        status = 0;
        return std::nullopt;
    } catch (const CLI::CallForVersion &) {
        std::cout << app.version() << '\n';
        status = 0;
        return std::nullopt;
    } catch (const CLI::ParseError &error) {
        std::cerr << "incidentd: " << error.what() << "\nTry 'incidentd --help'.\n";
        status = 2;
        return std::nullopt;
    }
    return options;
}

} // namespace incident::daemon
