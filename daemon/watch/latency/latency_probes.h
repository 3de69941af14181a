// All probes that latency rules ask for: finds their places in files, puts them into processes, keeps each within its
// rate, and watches for calls that last too long.
//
// A replaced binary is noticed because each named path is checked (stat) once a second, and at once when a process
// starts that runs another file.  Inotify does not fit: each directory and link of a path can change, also inside the
// root of a container.  A second of delay does no harm, because a new process is noticed when it starts.
#pragma once

#include "daemon/probe/exit_probes.h"
#include "daemon/probe/file_looks.h"
#include "daemon/probe/overdue.h"
#include "daemon/probe/probe_end.h"

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <set>

namespace incident::daemon {

// One latency condition of one rule.
struct WantedProbe {
    std::string rule;
    std::size_t condition = 0; // index in the rule
    ProbePoint enter;
    std::optional<ProbePoint> leave; // nullopt: the return of `enter`
    std::uint64_t threshold_ns = 0;
    rules::When when = rules::When::Return;
    std::uint32_t max_rate = 50'000; // calls a second
    bool everyone = false;           // the rule has no `match`: probe every process
    std::uint32_t dump_bit = 0;      // bit + 1 of the condition, if a slow return may dump core at once …
    std::uint32_t generation = 0;    // … and the generation it belongs to: TriggerPlan::generation
};

struct ProbeReport {
    enum class State { Active, Degraded, Unavailable } state = State::Unavailable;
    std::string rule;
    std::size_t condition = 0;
    std::string reason;                               // why it is not active; else a remark, or ""
    std::uint64_t off_since_ns = 0, off_until_ns = 0; // monotonic: detached for its rate; 0: it is not
    bpf::probe_count count{};
    std::uint64_t calls_per_second = 0;
};

class LatencyProbes {
public:
    static constexpr std::size_t processes_max = 64; // probed one by one; if there are more, every process is
    static constexpr std::uint64_t tick_ns = 1'000'000'000;
    // So many in a row before a probe is detached; at ten times the rate one is enough.
    static constexpr int ticks_over_rate = 3;
    static constexpr std::uint64_t retry_ns = 60'000'000'000;
    static constexpr std::uint64_t capture_gap_ns = 10'000'000; // between two captures of one probe
    // How long the event loop waits for a file.  This is longer than a file needs that is only slow on a busy host.  A
    // path that did not answer is not tried again for retry_ns.
    static constexpr std::chrono::milliseconds look_patience{2000};
    // Reading the mappings of a process that hangs can hang too.
    static constexpr std::chrono::milliseconds mappings_patience{1000};
    static constexpr std::uint64_t exits_max_rate = 10'000; // exceptions and longjmps a second that are followed

    LatencyProbes(LatencyKernel &kernel, const capture::OsRoots &os, UprobeAbilities abilities, DebugRoots debug = {});
    ~LatencyProbes(); // detaches all probes; takes up to a second

    // Sets the probes that the rules want from now on (monotonic now).  A probe that is still wanted is not touched.
    // After this the caller must report every process it knows again.  Error: there are more than PROBES_MAX different
    // probes, and the rest is unavailable.
    void set(std::vector<WantedProbe> wanted, std::uint64_t now);

    // Call it for each process: at its exec, when rules have changed, and when the daemon starts.  matches: whether the
    // rule of this condition wants the process.  A second call does no harm.
    void process_seen(std::uint32_t pid, const std::function<bool(const WantedProbe &)> &matches, std::uint64_t now);
    void process_gone(std::uint32_t pid);
    // The dynamic loader of the process has mapped code, and will run it next.
    void code_loaded(std::uint32_t pid, std::uint64_t now) { look_for_switches(pid, now); }

    // The monotonic time when wake() is due; OverdueScanner::never if there is no probe.
    std::uint64_t next_wake() const;
    // Does everything that is due, and calls on_overdue for calls that have passed the threshold of a "deadline"
    // condition.
    void wake(std::uint64_t now, const std::function<void(const OverdueCall &)> &on_overdue);

    // Measures once, as soon as there are probes, what a trap costs on this machine; loads() uses it.
    void measure_traps();
    // Detaches the probes with these keys until the next call, because of their cost.
    void hold(std::set<std::string> keys, std::uint64_t now);
    struct Load {
        std::string key;
        std::vector<const WantedProbe *> users; // valid until the next set()
        bool attached = false;
        std::uint64_t calls = 0;   // since load
        std::uint64_t trap_ns = 0; // the kernel's part of a call's price; 0: not measured
    };
    std::vector<Load> loads() const; // probes that are attached, or would be without hold()

    // The conditions that an event of this probe concerns.  Each has its own threshold and `when`.  Valid until the
    // next set().
    std::vector<const WantedProbe *> users(std::uint32_t probe) const;
    std::vector<ProbeReport> reports() const; // one for each wanted probe, in the order of set()
    std::uint64_t left_unseen() const { return scanner_.left_unseen(); }

private:
    struct Probe {
        std::uint32_t index = 0; // its id: see PROBE_INDEX
        std::string key;         // texts of its points
        std::vector<ProbeEnd> ends;
        std::vector<std::size_t> users; // into wanted_
        std::uint32_t max_rate = 0;     // the smallest that its users have
        bool everyone = false;
        std::set<std::uint32_t> processes;               // matching ones, while !everywhere
        std::set<std::uint32_t> forsaken;                // alive, but no longer matching
        bool everywhere = false;                         // attached for all processes
        std::array<std::string, 2> problem;              // for each end: why its place was not found
        std::string refused;                             // why the kernel did not attach it
        std::array<std::optional<FileIdentity>, 2> seen; // the file at an absolute path
        std::array<std::uint64_t, 2> silent_until_ns{};  // the path did not answer
        std::uint64_t since_ns = 0;                      // when it was attached (again)
        std::uint64_t off_until_ns = 0;                  // detached for its rate; 0: it is not
        std::uint64_t off_since_ns = 0; // … since the first time, even if it was tried again; 0: it is not
        std::uint64_t off_rate = 0;
        bool held = false;       // detached by hold()
        bpf::probe_count base{}; // counts of the probe that had the index before
        bpf::probe_count last{};
        std::uint64_t last_ns = 0, rate = 0;
        int over = 0, under = 0; // ticks in a row over max_rate; ticks within it since it was attached again
    };
    struct Lookup { // a library that a young process has not mapped yet
        std::uint32_t pid, probe;
        std::uint64_t due_ns;
        int attempt;
    };

    // When a library is searched for again in a process that has not mapped it, in ns after the attempt before.  A
    // dynamic loader finishes within the first; dlopen may come later.
    static constexpr std::array<std::uint64_t, 4> look_again_ns = {20'000'000, 200'000'000, 2'000'000'000,
                                                                   10'000'000'000};
    static constexpr std::size_t lookups_max = 4096;

    Probe *probe_of(std::uint32_t index);
    Probe make(const WantedProbe &wanted, const std::string &key);
    std::optional<std::uint32_t> free_index();
    struct Looking { // what is searched for in one go
        Probe *probe;
        bool on_host;                     // the files at absolute paths
        std::optional<std::uint32_t> pid; // the files that this process has
        int attempt = 0;
    };
    void look(const std::vector<Looking> &wanted, std::uint64_t now);
    std::string executable_of(const Probe &probe, std::uint32_t pid) const;
    std::vector<FileQuestion> questions_on_host(Probe &probe, std::uint64_t now);
    std::vector<FileQuestion> questions_about(const Probe &probe, std::uint32_t pid) const;
    void hear_from_host(Probe &probe, std::size_t end, FileAnswer answer, std::uint64_t now);
    bool hear_from(Probe &probe, std::size_t end, FileAnswer answer);
    void attach(Probe &probe, std::uint64_t now);
    void take_off(Probe &probe);
    std::string name_of(const Probe &probe) const;
    void check_rate(Probe &probe, std::uint64_t now);
    void tick(std::uint64_t now);
    void tell_kernel(const Probe &probe);
    void tell_scanner();
    bool follows_exits(const Probe &probe) const;
    void follow_exits();
    void look_for_exits(std::uint32_t pid, std::uint64_t now);
    std::vector<TargetName> with_return_probes() const;
    void look_for_switches(std::uint32_t pid, std::uint64_t now);
    void check_exit_rate(std::uint64_t now);
    std::string doubt(const OverdueCall &call);
    std::string remarks(const Probe &probe, const bpf::probe_count &count) const;
    ProbeReport report(const Probe &probe, const WantedProbe &wanted) const;

    LatencyKernel &kernel_;
    Detacher detacher_; // must outlive the ends
    ProbeTools tools_;
    ExitProbes exits_, loads_;
    OverdueScanner scanner_;
    std::vector<WantedProbe> wanted_;
    std::vector<std::unique_ptr<Probe>> probes_;
    std::set<std::string> held_; // keys
    std::optional<TrapPrice> trap_price_;
    bool traps_measured_ = false; // or tried to
    std::vector<Lookup> lookups_;
    std::set<std::pair<std::uint64_t, std::string>> looked_; // mount namespace and executable that were searched
    std::uint64_t own_namespace_ = 0;
    std::uint64_t next_tick_ = OverdueScanner::never;
    std::uint32_t next_index_ = 0, next_serial_ = 0;
    struct ExitLookup { // repeats the search for exits, because a process maps more files over time
        std::uint32_t pid;
        std::uint64_t due_ns;
        std::size_t attempt;
    };
    std::vector<ExitLookup> exit_lookups_;
    std::uint64_t exits_last_ = 0, exits_last_ns_ = 0, exits_off_until_ns_ = 0, exits_off_rate_ = 0;
};

} // namespace incident::daemon
