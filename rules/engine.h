// The engine: events in, decisions out.  Pure; its only clock is the events'.
#pragma once

#include "rules/rule.h"

#include <map>
#include <span>

namespace incident::rules {

struct SignalEvent {
    std::uint64_t t_ns = 0; // monotonic
    ProcessFacts process;
    int number = 0;
    bool fatal = false;
    bool from_kernel = false; // a fault or another kernel-made signal: there is no sender
    std::uint32_t sender_pid = 0, sender_uid = 0;
    std::string sender_comm;
};

enum class Verdict { Fire, Suppressed, NoMatch };

struct Decision {
    const Rule *rule = nullptr; // into Engine::rules(): until the next replace()
    Verdict verdict = Verdict::NoMatch;
    std::string why;                     // which condition failed, which limit held; "" for Fire
    std::uint64_t suppressed_before = 0; // for Fire: suppressed since this limit key's last firing
};

struct RuleCounters {
    std::uint64_t fired = 0, suppressed = 0;
    std::uint64_t forgotten_keys = 0; // limit keys dropped because too many were in use (limit_memory.h)
};

class Engine {
public:
    explicit Engine(std::vector<Rule> rules);

    // One decision for each enabled rule whose kind the event is of, in rule
    // order.  Remembers firings, for limits.
    std::vector<Decision> decide(const SignalEvent &event);

    std::span<const Rule> rules() const { return rules_; }
    RuleCounters counters(std::string_view rule) const;

    // Whether any enabled rule could match such a process: what the watch
    // decision rests on.
    bool watches(const ProcessFacts &process) const;
    // Some enabled rule has no `match` keys: every process is watched.
    bool watches_everything() const;
    // Some enabled rule matches by comm / by cgroup or unit.
    bool looks_at_comm() const;
    bool looks_at_cgroup() const;
    // The signals on which some enabled rule may fire: when they kill, or when
    // they do not.  A rule with fatal = false is in both: it fires "also when the
    // signal does not kill".
    std::bitset<65> signals(bool fatal) const;

    // Keeps the limits' memory of rules whose text did not change, and the
    // counters of every rule whose name is still there.
    void replace(std::vector<Rule> rules);

private:
    struct Memory; // a rule's past firings, by limit key; bounded (limit_memory.h)
    std::vector<Rule> rules_;
    std::map<std::string, RuleCounters, std::less<>> counters_;
    std::map<std::string, Memory, std::less<>> memory_;

public:
    ~Engine();
    Engine(Engine &&) noexcept;
    Engine &operator=(Engine &&) noexcept;
};

} // namespace incident::rules
