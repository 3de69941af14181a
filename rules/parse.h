// TOML text → checked rules.  No I/O: the caller reads the files, in order.
#pragma once

#include "rules/config.h"
#include "rules/diagnostic.h"

#include <functional>
#include <optional>

namespace incident::rules {

struct Source {
    std::string name; // as shown in diagnostics
    std::string text;
};

struct ParsedRules {
    std::vector<Rule> rules; // the good ones, whatever else is wrong
    std::vector<Diagnostic> diagnostics;
    bool ok() const; // no errors (warnings do not count)
};

// User name → uid, for match.uid = ["postgres"]; nullopt: no such user.
using UidLookup = std::function<std::optional<std::uint32_t>(const std::string &)>;

ParsedRules parse_rules(const std::vector<Source> &sources, const UidLookup &uid_of);

struct ParsedConfig {
    Config config; // defaults where a value is wrong
    std::vector<Diagnostic> diagnostics;
    bool ok() const;
};

ParsedConfig parse_config(const Source &source);

} // namespace incident::rules
