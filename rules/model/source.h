// The text that a parser reads, and the questions it may ask its caller.
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

// The questions that the parser asks its caller. A function may be empty, for example if tracefs cannot be read: then
// names that depend on it are not checked. uid_of is the exception: without it no user name is known.
struct Lookups {
    UidLookup uid_of;
    // Every system call's name, for checking and for hints.
    std::function<const std::vector<std::string> &()> syscall_names;
    // The text of tracefs' events/CATEGORY/NAME/format; nullopt if there is no such tracepoint now.
    std::function<std::optional<std::string>(const std::string &category, const std::string &name)> tracepoint_format;
    // The tracepoints of a category, for hints; for "" the names of the categories.
    std::function<std::vector<std::string>(const std::string &category)> tracepoints;
    // [safety] allow_dump. If it is off, a rule with `dump` gets a warning.
    bool allow_dump = true;
};

} // namespace incident::rules
