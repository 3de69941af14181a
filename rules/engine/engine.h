// The engine: events in, decisions out.  Pure; its only clock is the events'.
#pragma once

#include "rules/model/rule.h"

#include <map>
#include <optional>
#include <span>

namespace incident::rules {

// What happened: one struct for each kind. A probe that belongs to one rule's condition (latency, tracepoint) names
// that rule. All other events are offered to every rule of their kind.
struct SignalEvent {
    int number = 0;
    bool fatal = false;
    bool from_kernel = false; // a fault or another signal that the kernel made: it has no sender
    std::uint32_t sender_pid = 0, sender_uid = 0;
    std::string sender_comm;
};
// A rule with when = "deadline" gets one event for each call. It comes while the call is in flight, or at the return if
// the call ended before anybody looked. The same is true for txg and blocked.
// told_ns: the same call was offered before, while in flight, to rules with deadlines up to this long. Those rules are
// not asked again, so that they do not fire twice.
struct LatencyEvent {
    std::string rule;
    std::size_t condition = 0; // index into Rule::conditions
    std::uint64_t elapsed_ns = 0;
    bool in_flight = false;
    std::uint64_t told_ns = 0;
};
struct OomEvent {
    bool cgroup = false; // the limit of a memory cgroup was reached; false: the host had no memory left
};
struct ReclaimEvent {
    bool cgroup = false; // reclaim for a memory cgroup; false: direct reclaim
    std::uint64_t stalled_ns = 0;
};
struct TxgEvent {
    std::string pool;
    std::uint64_t elapsed_ns = 0;
    bool in_flight = false;
    std::uint64_t told_ns = 0;
};
struct SyscallEvent {
    std::string name;
    std::int64_t ret = 0; // -errno or value
    std::uint64_t duration_ns = 0;
};
struct BlockedEvent {
    std::uint64_t blocked_ns = 0;
    bool in_flight = false, idle = false;
    std::uint64_t told_ns = 0;
};
struct MemoryEvent {
    std::uint64_t rss = 0; // bytes; the engine computes growth from the samples of one process
};
struct ExitEvent {
    int status = 0; // exit status 0..255, meaningless when signal != 0
    int signal = 0;
};
struct BlockIoEvent {
    std::string device;
    std::uint64_t duration_ns = 0;
    int error = 0; // positive errno, 0: fine
    bool write = false;
};
struct TracepointEvent {
    std::string rule;
    std::size_t condition = 0;
    std::vector<std::uint8_t> record;
};

using EventKind = std::variant<SignalEvent, LatencyEvent, OomEvent, ReclaimEvent, TxgEvent, SyscallEvent, BlockedEvent,
                               MemoryEvent, ExitEvent, BlockIoEvent, TracepointEvent>;

struct Event {
    std::uint64_t t_ns = 0; // monotonic
    ProcessFacts process;   // pid 0: the event is about the host (txg_sync)
    EventKind what;
    // The event is offered to these rules only; if not set, to all rules of its kind.
    std::optional<std::vector<std::string>> only{};
};

enum class Outcome {
    Fire,
    Suppressed, // matched, and a limit held it back
    Counted,    // matched, and more are needed (count, window, all)
    NoMatch
};

// One of the matches that led to a firing.
struct Matched {
    std::uint64_t t_ns = 0;
    std::uint64_t value = 0; // ns or bytes; the kind says which
    std::size_t condition = 0;
};

struct Decision {
    const Rule *rule = nullptr; // points into Engine::rules(): valid until the next replace()
    Outcome outcome = Outcome::NoMatch;
    std::string why;                     // which condition failed, which limit held, what is still missing; "" for Fire
    std::uint64_t suppressed_before = 0; // for Fire: how many were suppressed since this limit key's last firing
    std::size_t condition = 0;           // the condition that matched the event
    // The process the rule fired for, if that is not the event's process. This happens to an `all` rule whose last
    // condition counts by host or cgroup.
    std::optional<ProcessFacts> about;
    // for Fire: the matches that led to it, oldest first, at most the newest `most_matches`; then the totals over all
    std::vector<Matched> matches;
    std::uint64_t matches_total = 0, value_total = 0;
};
constexpr std::size_t most_matches = 1024;

struct RuleCounters {
    std::uint64_t fired = 0, suppressed = 0, matched = 0;
    std::uint64_t forgotten_keys = 0; // limit and tally keys dropped because too many were in use
};

// Firings: only Fire and Suppressed are returned. An event that does not match gets no explanation and allocates no
// memory. This is for kinds with tens of thousands of events a second.
enum class Answers { All, Firings };

class Engine {
public:
    explicit Engine(std::vector<Rule> rules);

    // Returns one decision for each enabled rule that has a condition of the event's kind, in rule order. If the event
    // names its rule, only that rule decides. Matches and firings are remembered for tallies and limits. After a firing
    // the tally starts again from zero, also when the firing was suppressed. In an `all` rule, tallies by cgroup or
    // host continue if other processes share them.
    std::vector<Decision> decide(const Event &event, Answers answers = Answers::All);

    std::span<const Rule> rules() const { return rules_; }
    const Rule *rule(std::string_view name) const;
    RuleCounters counters(std::string_view rule) const;
    std::uint64_t matched() const; // of all rules together, so far

    // True if an enabled rule could match this process and wants it recorded: then the process is watched. Rules that
    // have only reclaim or txg_sync conditions do not want that, unless their `match` names processes.
    bool watches(const ProcessFacts &process) const;
    // True if an enabled rule that wants recording has no `match` keys: then every process is watched.
    bool watches_everything() const;
    // True if an enabled rule matches by comm; true if one matches, counts or limits by cgroup or unit.
    bool looks_at_comm() const;
    bool looks_at_cgroup() const;
    // The signals on which an enabled rule may fire: those that kill, and those that do not. A rule with fatal = false
    // counts for both, because it fires "also when the signal does not kill". The signals of an exit rule are among the
    // fatal ones.
    std::bitset<65> signals(bool fatal) const;

    // Installs new rules. Rules with the same text keep their memory (limits, tallies). Rules with the same name keep
    // their counters.
    void replace(std::vector<Rule> rules);

private:
    struct Memory; // a rule's past matches and firings, by key; bounded
    void decide(std::size_t rule, const Event &event, Answers answers, std::vector<Decision> &out);

    std::vector<Rule> rules_;
    std::vector<Memory> memory_;                            // of rules_, in their order
    std::map<std::string, std::size_t, std::less<>> index_; // of rules_, by name
    std::vector<std::vector<std::size_t>> of_kind_;         // enabled rules, by EventKind's alternative

public:
    ~Engine();
    Engine(Engine &&) noexcept;
    Engine &operator=(Engine &&) noexcept;
};

} // namespace incident::rules
