// Gathers the events of each incident.
//
// When a process dies, the kernel side sends several events: one for the process, one for each thread, and one
// when the process is gone.  When a process lives on, the trigger of a rule comes first; if the rule fires, the
// recorder is asked for a snapshot of all threads.  In both cases an Assembly gathers the events until no more can
// come: all threads are there, the process is gone, or a deadline has passed.
#pragma once

#include "capture/collect/collect.h"
#include "daemon/assemble/oom_kills.h"
#include "daemon/facts/facts_cache.h"
#include "daemon/facts/occurrence.h"
#include "daemon/os/clocks.h"
#include "daemon/plan/rules_in_force.h"
#include "daemon/record/recorder.h"
#include "daemon/watch/watch.h"

#include <map>
#include <set>
#include <string>

namespace incident::daemon {

struct Assembly {
    std::optional<rules::Rule> rule; // none: no rule fired; the assembly exists only to give the rings back
    rules::ProcessFacts facts;
    capture::IncidentInput input;
    capture::Collected collected; // process/, read when the trigger came
    std::uint64_t last_event_ns = 0;
    bool closed = false; // on_ready() has it; it stays here until the process is gone

    // This death may be an OOM kill.  That is known only when the kernel has named its victim.
    bool perhaps_oom = false;
    std::optional<OomKill> oom;
    // What is still to come when the process lives on.
    bool context_expected = false; // the thread's own capture
    bool process_seen = false;     // the process event
    int dumped = 0;                // signal the kernel side has sent
    std::vector<LateReading> late; // these run on the writer's thread
};

struct AssemblyCounters {
    std::uint64_t suppressed = 0; // firings that limits held back
    std::uint64_t unmatched = 0;  // triggers no rule wanted
    std::uint64_t unknown = 0;    // triggers of processes that are gone and of which no rule could be told
    std::uint64_t joined = 0;     // firings that are named in the bundle of another one, which was being made
    std::uint64_t outdated = 0;   // triggers of rules that were changed or removed before they were read
};

// Receives what the assembler finds out.
class AssemblyListener {
public:
    virtual ~AssemblyListener() = default;
    // The rule of this assembly has fired, and the assembly is complete.
    virtual void on_ready(Assembly assembly) = 0;
    // Something has happened, and the rules are asked next.
    virtual void before_rules(Occurrence &occurrence) = 0;
    // A rule has fired.  The listener may add context to the assembly.
    virtual void on_fire(const rules::Decision &decision, Assembly &assembly) = 0;
    // A process has started, and a rule in TriggerPlan::told() is about it.
    virtual void on_started(const rules::ProcessFacts &process) = 0;
    // It has been decided that this process is watched, and others like it are from now on.
    virtual void on_watched(const capture::Subject &process) = 0;
    // The kernel side asks whether it may make this process dump core.
    virtual void on_permit(const bpf::trigger_head &asked) = 0;
    // An event that belongs to no assembly.  false: its rules are gone.
    virtual bool on_other(const bpf::event_header &header, std::span<const std::uint8_t> bytes) = 0;
};

class Assembler {
public:
    // Everything given by reference must outlive the assembler.  deadline: how long an assembly waits for more events.
    Assembler(Recorded &recorder, RulesInForce &rules, FactsCache &facts, AssemblyListener &listener,
              const Clock &clock, const capture::OsRoots &os, std::string boot_id, rules::Nanoseconds deadline);

    // Takes one event of the ring buffer.
    void take(std::span<const std::uint8_t> bytes);
    // Takes what user space has seen itself, such as a passed deadline or grown memory.
    void occur(Occurrence occurrence);
    // Closes what is complete or overdue.  read_to_its_end: no event waits.  While events come faster than they can be
    // handled, call it nevertheless: then what only their end completes is closed when it is overdue.  true: an
    // assembly is still open, so call again soon.
    bool tend(std::uint64_t now_ns, bool read_to_its_end = true);
    // Closes everything now, as if the deadline had passed, because the daemon stops.
    void close_all();
    // Finds deaths whose event was lost because the ring buffer was full.  Makes assemblies from what the process table
    // and the rings still hold.
    void find_lost(std::uint64_t now_ns);
    // This process is made to dump core for a bundle that already exists, so its death is no incident of its own.
    void expect_death(const capture::ProcessRef &process);

    std::size_t open() const;
    const AssemblyCounters &counters() const { return counters_; }

private:
    struct Key {
        capture::ProcessRef process;
        std::uint32_t tid; // 0 for a death; else the thread in which it happened
        auto operator<=>(const Key &) const = default;
    };

    static bool is_of(const Key &key, const bpf::event_header &event);
    void on_death(const bpf::death_event &event);
    void on_snapshot(const bpf::death_event &event);
    void on_thread(std::span<const std::uint8_t> bytes);
    void on_maps(std::span<const std::uint8_t> bytes);
    void on_pointers(std::span<const std::uint8_t> bytes);
    void on_gone(const bpf::event_header &event);
    void on_watch(const bpf::watch_event &event);
    void on_oom(const bpf::oom_event &event);
    bool is_lost(const rules::ProcessFacts &facts) const;
    void tell_of_dump(Assembly &assembly, const Occurrence &occurrence);
    void ask_rules(Assembly &assembly, const rules::Event &event);
    void fire(Assembly &assembly, const rules::Decision &decision);
    void on_lost(const bpf::process_entry &entry);
    void add_kept_thread(const bpf::death_event &event, const bpf::kept_death &kept);
    void decide_death(Assembly &assembly);
    void decide_oom(Assembly &assembly);
    bool join(const Key &key, const Assembly &fired);
    void look_at_threads(Assembly &assembly);
    Assembly *assembly_for(const bpf::thread_event &event);
    void add_thread(Assembly &assembly, const bpf::thread_event &event, const std::vector<capture::StackPiece> &stack,
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
    // By tid and start of the thread.  They arrive before the thread's own event, which takes them out.
    std::map<std::pair<std::uint32_t, capture::BootTime>, capture::ReturnProbes> returns_;
    std::set<capture::ProcessRef> expected_deaths_; // see expect_death(); bounded
    AssemblyCounters counters_;
    LossCounts quiet_losses_; // as of the last time no assembly was open; later losses concern the next assembly
};

} // namespace incident::daemon
