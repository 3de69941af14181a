// Incidents in the making.  The kernel side speaks of a dying process in several events
// (one for the process, one a thread, one when it is gone); an Assembly gathers them
// until nothing more can come: all threads are there, the process is gone, or a
// deadline has passed.
#pragma once

#include "capture/collect.h"
#include "daemon/recorder.h"
#include "rules/engine.h"

#include <deque>
#include <map>
#include <string>

namespace incident::daemon {

struct Assembly {
    std::optional<rules::Rule> rule; // none: no rule fired; kept only to give its rings back
    rules::ProcessFacts facts;
    capture::IncidentInput input;
    capture::Collected collected; // process/, read when the trigger came
    std::uint64_t last_event_ns = 0;
    bool closed = false; // handed on; waits for the process to be gone
};

struct AssemblyCounters {
    std::uint64_t suppressed = 0; // firings that limits held back
    std::uint64_t unmatched = 0;  // triggers no rule wanted
};

class Assembler {
public:
    // on_ready: takes an assembly whose rule fired and which is complete.
    Assembler(Recorder &recorder, rules::Engine &engine, capture::OsRoots os, std::string boot_id,
              rules::Nanoseconds deadline, std::function<void(Assembly)> on_ready);

    // One event out of the ring buffer.
    void take(std::span<const std::uint8_t> bytes);
    // Closes what is complete or overdue.  true: something is still open and wants to be
    // looked at again soon.
    bool tend(std::uint64_t now_ns);
    // Closes everything now, as for a deadline: the daemon stops.
    void close_all();
    // Deaths whose event found the ring buffer full: makes assemblies of what the process
    // table and the rings still know.
    void find_lost(std::uint64_t now_ns);

    std::size_t open() const;
    const AssemblyCounters &counters() const { return counters_; }
    void set_deadline(rules::Nanoseconds deadline) { deadline_ns_ = static_cast<std::uint64_t>(deadline.count()); }

private:
    struct Key {
        std::uint32_t tgid;
        std::uint64_t start_boot_ns;
        std::uint32_t tid; // 0 for a death; the thread of a signal that does not kill
        auto operator<=>(const Key &) const = default;
    };

    void on_death(const bpf::death_event &event);
    void on_thread(std::span<const std::uint8_t> bytes);
    void on_gone(const bpf::event_header &event);
    void on_watch(const bpf::watch_event &event);
    void decide(Assembly &assembly);
    void add_thread(Assembly &assembly, const bpf::thread_event &event, std::span<const std::uint8_t> stack);
    void add_silent_threads(Assembly &assembly);
    bool complete(const Key &key, const Assembly &assembly);
    void close(const Key &key, Assembly &assembly, bool overdue);
    void forget(const Key &key);

    Recorder &recorder_;
    rules::Engine &engine_;
    capture::OsRoots os_;
    std::string boot_id_;
    std::uint64_t deadline_ns_;
    std::function<void(Assembly)> on_ready_;
    std::map<Key, Assembly> assemblies_;
    AssemblyCounters counters_;
    LossCounts quiet_losses_; // when last nothing was open: what is lost from then on concerns what opens next
};

} // namespace incident::daemon
