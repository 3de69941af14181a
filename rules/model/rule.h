// A rule after parsing: passive data, complete and checked.  Behaviour lives in
// engine.h, parsing in parse.h.  Nothing here knows files, processes or clocks.
#pragma once

#include "rules/filter/filter.h"

#include <bitset>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace incident::rules {

using Nanoseconds = std::chrono::nanoseconds;

// A position in a rule file; line and column count from 1.
struct Location {
    std::string file;
    int line = 0;
    int column = 0;
};

// Which processes a rule is about. Every given key must hold; one entry of a list is enough.
// Patterns are globs (fnmatch(3) without FNM_PATHNAME: '*' also matches '/').
struct Match {
    std::vector<std::string> unit, exe, comm, cgroup;
    std::vector<std::uint32_t> uid; // numeric, or names resolved by the caller's lookup
    bool everything() const { return unit.empty() && exe.empty() && comm.empty() && cgroup.empty() && uid.empty(); }
    bool operator==(const Match &) const = default;
};

// The word that rule files have for an enumerator.  Each enumeration stands with its words, in the same order.
template <typename Enum, std::size_t N> const char *word_of(const char *const (&words)[N], Enum value) {
    return words[static_cast<std::size_t>(value)];
}

enum class LimitBy { Rule, Process, Exe, Cgroup };
inline constexpr const char *limit_by_words[] = {"rule", "process", "exe", "cgroup"};

struct Limit {
    Nanoseconds cooldown{0};               // how long no firing follows after one
    std::optional<std::uint32_t> per_hour; // not set: this rule sets no limit
    LimitBy by = LimitBy::Exe;             // for a rule about the host the default is Rule
    bool operator==(const Limit &) const = default;
};

// How closely the heap is followed. Pages: brk, mmap and similar calls, from the recorded system calls. Sizes: malloc
// and similar functions, counted by size and call stack. History: each of these calls is also recorded.
enum class Allocations { Pages, Sizes, History };
inline constexpr const char *allocations_words[] = {"pages", "sizes", "history"};

// What to keep and how much.
struct Context {
    std::uint32_t stack_bytes = 32 * 1024;        // for each thread; 0..256 KiB
    bool files = true;                            // opens with their paths
    bool memory = true;                           // brk/mmap/… growth
    bool host = true;                             // host/ collectors
    bool environ = false;                         // process/environ: off by default
    Allocations allocations = Allocations::Pages; // more than Pages needs a match by unit, exe or cgroup
    std::uint32_t payload = 0;                    // bytes of what is sent and received; needs a match as allocations
    std::vector<std::string> logs;                // globs of files whose end is kept if output goes there
    bool operator==(const Context &) const = default;
};

// dump = "SIGABRT", or dump = { signal = "SIGABRT", dry_run = true }: make the process
// the rule fired for dump core.  Needs [safety] allow_dump.
struct Dump {
    int signal = 0;       // its default action must dump core (signal(7))
    bool dry_run = false; // only report what would be done
    bool operator==(const Dump &) const = default;
};

struct SenderFilter {
    std::vector<std::string> comm; // globs
    std::vector<std::uint32_t> uid;
    // true: only signals a process sends itself (abort, raise) or the kernel makes for its own faults
    std::optional<bool> self;
    bool everything() const { return comm.empty() && uid.empty() && !self; }
    bool operator==(const SenderFilter &) const = default;
};

// on = "signal"
struct SignalCondition {
    std::bitset<65> signals; // [number]
    bool fatal = true;       // only when the signal will really kill; false: also when it is handled or ignored
    SenderFilter sender;
    bool operator==(const SignalCondition &) const = default;
};

// Return: the rule fires when the call is over. Deadline: it fires during the call, as soon as the threshold has
// passed.
enum class When { Return, Deadline };
inline constexpr const char *when_words[] = {"return", "deadline"};

// "uprobe:BINARY:SYMBOL[+OFFSET]" or "usdt:BINARY:PROVIDER:NAME".  BINARY is an absolute
// path, or only a library's name ("libc.so.6"). Such a library is looked for in the mappings of the processes that
// `match` names.
struct ProbePoint {
    enum class Kind { Uprobe, Usdt } kind = Kind::Uprobe;
    std::string binary;
    std::string symbol;       // uprobe: mangled, demangled or versioned ("f@@V"); empty for usdt
    std::uint64_t offset = 0; // uprobe: bytes after the symbol's entry
    std::string provider, name;
    std::string text; // as written
    bool bare() const { return !binary.starts_with('/'); }
    bool operator==(const ProbePoint &) const = default;
};

// on = "latency": the time from `enter` to `leave`, in one thread.
struct LatencyCondition {
    ProbePoint enter;
    std::optional<ProbePoint> leave; // not set: the return of `enter` (only for a uprobe without an offset)
    Nanoseconds threshold{0};
    When when = When::Return;
    std::uint32_t max_rate = 50'000; // with more calls a second the probe is detached
    bool operator==(const LatencyCondition &) const = default;
};

// on = "oom"
struct OomCondition {
    enum class Scope { Any, Cgroup, Host } scope = Scope::Any; // which limit was hit
    static constexpr const char *scope_words[] = {"any", "cgroup", "host"};
    bool operator==(const OomCondition &) const = default;
};

// on = "reclaim": one wait of a thread in direct or memory-cgroup reclaim. Such a rule needs a tally as well: a count
// within a window, a stalled time within it, or both.
struct ReclaimCondition {
    bool direct = true, cgroup = true; // which of the two waits count
    Nanoseconds slower_than{0};        // only waits of at least this length
    bool operator==(const ReclaimCondition &) const = default;
};

// on = "txg_sync": one spa_sync() of a ZFS pool.
struct TxgCondition {
    std::vector<std::string> pool; // globs; empty: any
    Nanoseconds threshold{0};
    When when = When::Deadline;
    bool operator==(const TxgCondition &) const = default;
};

// on = "syscall"
struct SyscallCondition {
    std::vector<std::string> names; // of system calls, sorted; groups ("@file") already expanded; empty: any
    std::vector<int> errnos;        // returned errors as positive numbers; if empty and failed == false: any result
    bool failed = false;            // any error
    std::optional<Nanoseconds> slower_than;
    bool operator==(const SyscallCondition &) const = default;
};

// on = "blocked": a thread is off the CPU because it waits for something other than a CPU.
struct BlockedCondition {
    Nanoseconds threshold{0};
    When when = When::Return;
    bool idle = false; // also waits of a program that has nothing to do (poll, futex, accept, …)
    bool operator==(const BlockedCondition &) const = default;
};

// on = "memory": the memory of a process, sampled. If both keys are given, both must hold. Alone or in `any`, the
// condition matches when it begins to hold; in `all`, as long as it holds.
struct MemoryCondition {
    std::optional<std::uint64_t> rss_above; // bytes
    std::optional<std::uint64_t> growth;    // bytes of RSS gained …
    Nanoseconds within{0};                  // … within this time; 0 iff no growth
    bool operator==(const MemoryCondition &) const = default;
};

// on = "exit": a process ends.
struct ExitCondition {
    std::bitset<256> status; // exit statuses; 1..255 if neither key is given
    std::bitset<65> signals; // or death by one of these signals
    bool operator==(const ExitCondition &) const = default;
};

// on = "block_io": one request to a block device, attributed to the process that asked for it.
struct BlockIoCondition {
    std::optional<Nanoseconds> slower_than; // from issue to completion
    bool error = false;                     // completed with an error; if both keys are given, one is enough
    std::vector<std::string> device;        // globs of names ("sda", "nvme*"); empty: any
    bool reads = true, writes = true;       // writes: also flushes and discards
    bool operator==(const BlockIoCondition &) const = default;
};

// on = "tracepoint": any tracepoint of the kernel (CATEGORY:NAME), in the context of the thread that hit it.
struct TracepointCondition {
    std::string category, name;
    std::string filter_text; // "" : every hit
    Filter filter;           // checked against the tracepoint's format if that was available
    bool operator==(const TracepointCondition &) const = default;
};

using ConditionKind =
    std::variant<SignalCondition, LatencyCondition, OomCondition, ReclaimCondition, TxgCondition, SyscallCondition,
                 BlockedCondition, MemoryCondition, ExitCondition, BlockIoCondition, TracepointCondition>;

enum class TallyBy { Process, Cgroup, Host };
inline constexpr const char *tally_by_words[] = {"process", "cgroup", "host"};

// How many matches make a firing. With count 1 and no `stalled`, each match does.
struct Tally {
    std::uint64_t count = 1;
    // The matches' total time (latency, reclaim, syscall, blocked, block_io, txg_sync).
    Nanoseconds stalled{0};
    Nanoseconds window{0}; // the matches must be within this time; > 0 exactly if count > 1 or stalled > 0
    TallyBy by = TallyBy::Process;
    // If both count and stalled are given, one is enough.
    bool each() const { return count <= 1 && stalled.count() == 0; }
    bool operator==(const Tally &) const = default;
};

struct Condition {
    std::string kind; // "signal", …
    ConditionKind what;
    Tally tally;
    bool operator==(const Condition &) const = default;
};

// How a rule combines several conditions: `all` of them or `any`, for one process within a time. In `all`, a condition
// by host holds for every process, and one by cgroup for every process of that cgroup. `match` does not restrict which
// processes a condition by host counts.
enum class Combine { One, All, Any };

struct Rule {
    std::string name; // [a-z0-9-]+, unique
    std::string kind; // the kind of its only condition; "all" or "any" if it has several
    bool enabled = true;
    Match match;
    Limit limit;
    Context context;
    std::optional<Dump> dump;
    Combine combine = Combine::One;
    Nanoseconds within{0};             // for Combine::All
    std::vector<Condition> conditions; // at least one; events name a condition by its index
    std::string text;                  // its effective TOML, as bundles contain it
    Location at;                       // the position of its [[rule]] header
};

// What is known about a process when rules are matched against it. All texts are hostile.
struct ProcessFacts {
    std::uint32_t pid = 0; // 0: the host as a whole, no process; no `match` key holds for it
    std::uint64_t start_boot_ns = 0;
    std::uint32_t uid = 0; // effective, as `match` sees it
    std::string comm, exe, cgroup, unit;
    std::optional<std::uint32_t> real_uid{}; // of whoever started it, if known; see user.h
};

} // namespace incident::rules
