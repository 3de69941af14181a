// The engine: events in, decisions out.  Pure; its only clock is the events'.
#pragma once

#include "rules/model/rule.h"

#include <map>
#include <optional>
#include <span>

namespace incident::rules {

// What happened, one struct a kind.  A probe that belongs to one rule's condition (latency,
// tracepoint) names it; all others are offered to every rule of their kind.
struct SignalEvent {
    int number = 0;
    bool fatal = false;
    bool from_kernel = false; // a fault or another kernel-made signal: there is no sender
    std::uint32_t sender_pid = 0, sender_uid = 0;
    std::string sender_comm;
};
// Of one call that a rule with when = "deadline" may fire for, one event is offered: in flight,
// or at its return where it was over before anybody looked.  The same goes for txg and blocked.
// told_ns, of what takes time: the same was offered before, in flight, for deadlines up to this
// long; those are not asked about again.
struct LatencyEvent {
    std::string rule;
    std::size_t condition = 0; // index into Rule::conditions
    std::uint64_t elapsed_ns = 0;
    bool in_flight = false;
    std::uint64_t told_ns = 0;
};
struct OomEvent {
    bool cgroup = false; // a memory cgroup's limit, not the host's
};
struct ReclaimEvent {
    bool cgroup = false; // else direct reclaim
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
    std::uint64_t rss = 0; // bytes; growth is worked out from the samples of one process
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
    ProcessFacts process;   // pid 0: of the host (txg_sync)
    EventKind what;
    // It was made for these rules and is offered to no others; none: to all of its kind.
    std::optional<std::vector<std::string>> only{};
};

enum class Verdict {
    Fire,
    Suppressed, // matched, and a limit held it back
    Counted,    // matched, and more are needed (count, window, all)
    NoMatch
};

// One match that a firing rests on.
struct Matched {
    std::uint64_t t_ns = 0;
    std::uint64_t value = 0; // ns or bytes, by kind
    std::size_t condition = 0;
};

struct Decision {
    const Rule *rule = nullptr; // into Engine::rules(): until the next replace()
    Verdict verdict = Verdict::NoMatch;
    std::string why;                     // which condition failed, which limit held, what is still missing; "" for Fire
    std::uint64_t suppressed_before = 0; // for Fire: suppressed since this limit key's last firing
    std::size_t condition = 0;           // the one this event was matched by
    // Whom it fired for, where that is not the event's process: an `all` rule whose last
    // condition was one by host or cgroup.
    std::optional<ProcessFacts> about;
    // for Fire: the matches it rests on, oldest first, at most `most_matches` of the newest; and all of them
    std::vector<Matched> matches;
    std::uint64_t matches_total = 0, value_total = 0;
};
constexpr std::size_t most_matches = 1024;

struct RuleCounters {
    std::uint64_t fired = 0, suppressed = 0, matched = 0;
    std::uint64_t forgotten_keys = 0; // limit and tally keys dropped because too many were in use
};

// Firings: only Fire and Suppressed; what does not match is not explained, and costs no memory.
// For kinds whose events come by the ten thousand a second.
enum class Answers { All, Firings };

class Engine {
public:
    explicit Engine(std::vector<Rule> rules);

    // One decision for each enabled rule one of whose conditions is of the event's kind, in
    // rule order; for an event that names its rule, that rule's.  Remembers matches and
    // firings, for tallies and limits.  After a firing, also a suppressed one, its tally starts
    // afresh; in `all` those by cgroup or host go on where others share them.
    std::vector<Decision> decide(const Event &event, Answers answers = Answers::All);

    std::span<const Rule> rules() const { return rules_; }
    const Rule *rule(std::string_view name) const;
    RuleCounters counters(std::string_view rule) const;

    // Whether any enabled rule could match such a process and wants it recorded: what the
    // watch decision rests on.  Rules on reclaim and txg_sync only do not, unless they are
    // about processes that `match` names.
    bool watches(const ProcessFacts &process) const;
    // Some enabled rule that wants recording has no `match` keys: every process is watched.
    bool watches_everything() const;
    // Some enabled rule matches by comm / matches, counts or limits by cgroup or unit.
    bool looks_at_comm() const;
    bool looks_at_cgroup() const;
    // The signals on which some enabled rule may fire: when they kill, or when they do not.
    // A rule with fatal = false is in both: it fires "also when the signal does not kill".
    // An exit rule's signals are among the fatal ones.
    std::bitset<65> signals(bool fatal) const;

    // Keeps the memory (limits, tallies) of rules whose text did not change, and the
    // counters of every rule whose name is still there.
    void replace(std::vector<Rule> rules);

private:
    struct Memory; // of a rule: past matches and firings, by key; bounded
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
