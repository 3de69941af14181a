// Incidents in the making.
//
// Of a dying process the kernel side speaks in several events (one for the process, one a
// thread, one when it is gone); of one that lives on, a rule's trigger comes first, and
// when the rule fires the recorder is asked for a snapshot of all its threads.  Either way
// an Assembly gathers what comes until nothing more can: all threads are there, the
// process is gone, or a deadline has passed.
#pragma once

#include "capture/collect/collect.h"
#include "daemon/assemble/oom_kills.h"
#include "daemon/facts/facts_cache.h"
#include "daemon/facts/occurrence.h"
#include "daemon/os/clocks.h"
#include "daemon/plan/rules_in_force.h"
#include "daemon/record/recorder.h"
#include "daemon/watch/watch.h"

#include <deque>
#include <map>
#include <set>
#include <string>

namespace incident::daemon {

struct Assembly {
    std::optional<rules::Rule> rule; // none: no rule fired; kept only to give its rings back
    rules::ProcessFacts facts;
    capture::IncidentInput input;
    capture::Collected collected; // process/, read when the trigger came
    std::uint64_t last_event_ns = 0;
    bool closed = false; // handed on; waits for the process to be gone

    // Of a death: may be an OOM kill, which is known only when the kernel has named its victim.
    bool perhaps_oom = false;
    std::optional<OomKill> oom;
    // Of a living process: what is still to come.
    bool context_expected = false; // the thread's own capture
    bool moment_seen = false;      // the process event
    int dumped = 0;                // signal the kernel side has sent
    std::vector<LateReading> late; // on the writer's thread
};

struct AssemblyCounters {
    std::uint64_t suppressed = 0; // firings that limits held back
    std::uint64_t unmatched = 0;  // triggers no rule wanted
    std::uint64_t joined = 0;     // firings told of by the bundle of another one, which was being made
    std::uint64_t outdated = 0;   // triggers of rules that were changed or removed before they were read
};

// Whom the assembler tells of what it finds out.
class AssemblyListener {
public:
    virtual ~AssemblyListener() = default;
    // An assembly whose rule fired and which is complete.
    virtual void on_ready(Assembly assembly) = 0;
    // Something has happened, and the rules are asked next.
    virtual void before_rules(Occurrence &occurrence) = 0;
    // A rule has fired; its context may be added.
    virtual void on_fire(const rules::Decision &decision, Assembly &assembly) = 0;
    // A process that rules with a part in TriggerPlan::told() are about.
    virtual void on_started(const rules::ProcessFacts &process) = 0;
    // May the kernel side make that process dump core?
    virtual void on_permit(const bpf::trigger_head &asked) = 0;
    // An event that is of no assembly; false: its rules are gone.
    virtual bool on_other(const bpf::event_header &header, std::span<const std::uint8_t> bytes) = 0;
};

class Assembler {
public:
    // All that is given by reference outlives it.  deadline: how long an assembly waits for what is still to come.
    Assembler(Recorded &recorder, RulesInForce &rules, FactsCache &facts, AssemblyListener &listener,
              const Clock &clock, const capture::OsRoots &os, std::string boot_id, rules::Nanoseconds deadline);

    // One event out of the ring buffer.
    void take(std::span<const std::uint8_t> bytes);
    // Something user space has seen itself: a deadline passed, memory grown.
    void occur(Occurrence occurrence);
    // Closes what is complete or overdue; call it when the ring buffer has been read to its
    // end.  true: something is still open and wants to be looked at again soon.
    bool tend(std::uint64_t now_ns);
    // Closes everything now, as for a deadline: the daemon stops.
    void close_all();
    // Deaths whose event found the ring buffer full: makes assemblies of what the process
    // table and the rings still know.
    void find_lost(std::uint64_t now_ns);
    // That process is being made to dump core for a bundle that is already there: its death
    // is no incident of its own.
    void expect_death(const capture::ProcessRef &process);

    std::size_t open() const;
    const AssemblyCounters &counters() const { return counters_; }

private:
    struct Key {
        capture::ProcessRef process;
        std::uint32_t tid; // 0 for a death; of a process that lives on the thread it happened in
        auto operator<=>(const Key &) const = default;
    };

    static bool is_of(const Key &key, const bpf::event_header &event);
    void on_death(const bpf::death_event &event);
    void on_moment(const bpf::death_event &event);
    void on_thread(std::span<const std::uint8_t> bytes);
    void on_maps(std::span<const std::uint8_t> bytes);
    void on_pointers(std::span<const std::uint8_t> bytes);
    void on_gone(const bpf::event_header &event);
    void on_watch(const bpf::watch_event &event);
    void on_oom(const bpf::oom_event &event);
    void tell_of_dump(Assembly &assembly, const Occurrence &occurrence);
    void ask_rules(Assembly &assembly, const rules::Event &event);
    void fire(Assembly &assembly, const rules::Decision &decision);
    void decide_death(Assembly &assembly);
    void decide_oom(Assembly &assembly);
    bool join(const Key &key, const Assembly &fired);
    void look_at_threads(Assembly &assembly);
    Assembly *assembly_for(const bpf::thread_event &event);
    void add_thread(Assembly &assembly, const bpf::thread_event &event, std::span<const std::uint8_t> stack,
                    const std::optional<capture::ReturnProbes> &returns);
    void add_silent_threads(Assembly &assembly);
    std::uint32_t pid_of_thread(std::uint32_t tid) const;
    bool complete(const Key &key, const Assembly &assembly);
    void close(const Key &key, Assembly &assembly, bool overdue);
    void forget(const Key &key);

    Recorded &recorder_;
    RulesInForce &rules_;
    FactsCache &facts_;
    AssemblyListener &listener_;
    const Clock &clock_;
    capture::OsRoots os_;
    std::string boot_id_;
    std::uint64_t deadline_ns_;
    OomKills ooms_;
    std::map<Key, Assembly> assemblies_;
    // By tid and its start: come before the thread's own event, which takes it.
    std::map<std::pair<std::uint32_t, std::uint64_t>, capture::ReturnProbes> returns_;
    std::set<capture::ProcessRef> expected_deaths_; // bounded
    AssemblyCounters counters_;
    LossCounts quiet_losses_; // when last nothing was open: what is lost from then on concerns what opens next
};

} // namespace incident::daemon
