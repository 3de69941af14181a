// The text a parser reads, and what it may ask of its caller.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace incident::rules {

struct Source {
    std::string name; // as shown in diagnostics
    std::string text;
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

} // namespace incident::rules
