// TOML text → checked rules.  No I/O: the caller reads the files, in order.
#pragma once

#include "rules/files/config.h"
#include "rules/model/source.h"
#include "rules/toml/diagnostic.h"

#include <vector>

namespace incident::rules {

struct ParsedRules {
    std::vector<Rule> rules; // the rules without errors, even if others have some
    std::vector<Diagnostic> diagnostics;
    bool ok() const; // true if there are no errors (warnings do not count)
};

ParsedRules parse_rules(const std::vector<Source> &sources, const Lookups &lookups);

struct ParsedConfig {
    Config config; // defaults where a value is wrong
    std::vector<Diagnostic> diagnostics;
    bool ok() const;
};

ParsedConfig parse_config(const Source &source);

} // namespace incident::rules
