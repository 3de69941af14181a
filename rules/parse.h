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

// What the parser asks of its caller.  Any may be empty (where tracefs cannot be read, say):
// then what depends on it is taken as written.  But for uid_of: without it no user is known.
struct Lookups {
    UidLookup uid_of;
    // Every system call's name, for checking and for hints.
    std::function<const std::vector<std::string> &()> syscall_names;
    // The text of tracefs' events/CATEGORY/NAME/format; nullopt: there is no such tracepoint now.
    std::function<std::optional<std::string>(const std::string &category, const std::string &name)> tracepoint_format;
    // The tracepoints of a category, for hints; the categories for "".
    std::function<std::vector<std::string>(const std::string &category)> tracepoints;
    // [safety] allow_dump: a rule with `dump` is warned of when it is off.
    bool allow_dump = true;
};

ParsedRules parse_rules(const std::vector<Source> &sources, const Lookups &lookups);

struct ParsedConfig {
    Config config; // defaults where a value is wrong
    std::vector<Diagnostic> diagnostics;
    bool ok() const;
};

ParsedConfig parse_config(const Source &source);

} // namespace incident::rules
