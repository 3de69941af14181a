// A rule after parsing: passive data, complete and checked.  Behaviour lives in
// engine.h, parsing in parse.h.  Nothing here knows files, processes or clocks.
#pragma once

#include <bitset>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace incident::rules {

using Nanoseconds = std::chrono::nanoseconds;

// Where a thing stands in a rule file; line and column count from 1.
struct Location {
    std::string file;
    int line = 0;
    int column = 0;
};

// Which processes: every key that is given must hold; a list is any of.
// Patterns are globs (fnmatch(3) without FNM_PATHNAME: '*' also matches '/').
struct Match {
    std::vector<std::string> unit, exe, comm, cgroup;
    std::vector<std::uint32_t> uid; // numeric, or names resolved by the caller's lookup
    bool everything() const { return unit.empty() && exe.empty() && comm.empty() && cgroup.empty() && uid.empty(); }
};

enum class LimitBy { Rule, Process, Exe };

struct Limit {
    Nanoseconds cooldown{0};               // after a firing, none for this long
    std::optional<std::uint32_t> per_hour; // none: unlimited by this rule
    LimitBy by = LimitBy::Exe;
};

// What to keep and how much.
struct Context {
    std::uint32_t stack_bytes = 32 * 1024; // of each thread; 0..256 KiB
    bool files = true;                     // opens with their paths
    bool memory = true;                    // brk/mmap/… growth
    bool host = true;                      // host/ collectors
    bool environ = false;                  // process/environ: off by default
};

struct SenderFilter {
    std::vector<std::string> comm; // globs
    std::vector<std::uint32_t> uid;
    // true: only signals a process sends itself (abort, raise) or the kernel makes for its own faults
    std::optional<bool> self;
    bool everything() const { return comm.empty() && uid.empty() && !self; }
};

// on = "signal"
struct SignalCondition {
    std::bitset<65> signals; // [number]
    bool fatal = true;       // only when it will really kill; false: also when handled or ignored
    SenderFilter sender;
};

using Condition = std::variant<SignalCondition>;

struct Rule {
    std::string name; // [a-z0-9-]+, unique
    std::string kind; // "signal"
    bool enabled = true;
    Match match;
    Limit limit;
    Context context;
    Condition condition;
    std::string text; // its effective TOML, as it will stand in a bundle
    Location at;      // of its [[rule]] header
};

// What a rule is matched against.  All of it is hostile text.
struct ProcessFacts {
    std::uint32_t pid = 0;
    std::uint64_t start_boot_ns = 0;
    std::uint32_t uid = 0;
    std::string comm, exe, cgroup, unit;
};

} // namespace incident::rules
