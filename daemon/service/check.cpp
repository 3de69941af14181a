#include "daemon/service/check.h"

#include "daemon/service/rule_files.h"

#include <fmt/format.h>

namespace incident::daemon {

int check(const Options &options) {
    std::size_t errors = 0;
    auto print = [&](const std::vector<rules::Diagnostic> &diagnostics) {
        for (const auto &diagnostic : diagnostics) {
            fmt::print(stderr, "{}", diagnostic.text());
            errors += diagnostic.severity == rules::Severity::Error;
        }
    };
    auto config = load_config_of(options);
    auto loaded = load_rules_of(options, config && config->config.safety.allow_dump);
    for (const auto *error : {config ? nullptr : &config.error(), loaded ? nullptr : &loaded.error()})
        if (error) {
            fmt::print(stderr, "incidentd: {}\n", error->what);
            ++errors;
        }
    if (config)
        print(config->diagnostics);
    if (loaded) {
        print(loaded->parsed.diagnostics);
        fmt::print("{} files, {} rules", loaded->files, loaded->parsed.rules.size());
        for (const auto &name : loaded->masked)
            fmt::print(", {} masked", name);
        fmt::print("{}\n", errors ? fmt::format(", {} errors", errors) : ": all is well");
    }
    return errors ? 1 : 0;
}

} // namespace incident::daemon
