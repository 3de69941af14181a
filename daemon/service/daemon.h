// The daemon: one event loop over the ring buffer, the writer, the control socket,
// signals and a clock.  What each part does stands in its own file; here is only who
// hands what to whom.
#pragma once

#include "capture/bundle/bundle.h"
#include "daemon/assemble/assembly.h"
#include "daemon/cost/cost_loads.h"
#include "daemon/cost/cost_meter.h"
#include "daemon/cost/governor.h"
#include "daemon/dump/dumper.h"
#include "daemon/os/event_loop.h"
#include "daemon/plan/trigger_plan.h"
#include "daemon/record/event_reader.h"
#include "daemon/record/recorder.h"
#include "daemon/record/rule_states.h"
#include "daemon/service/control.h"
#include "daemon/service/options.h"
#include "daemon/service/rule_files.h"
#include "daemon/service/status.h"
#include "daemon/watch/blocked_watch.h"
#include "daemon/watch/heap_watch.h"
#include "daemon/watch/latency_watch.h"
#include "daemon/watch/memory_watch.h"
#include "daemon/watch/reclaim_watch.h"
#include "daemon/watch/txg_watch.h"
#include "daemon/write/analyst.h"
#include "daemon/write/core_follower.h"
#include "daemon/write/hook.h"
#include "daemon/write/writer.h"

#include <map>
#include <memory>
#include <set>

namespace incident::daemon {

class Daemon {
public:
    // Reads configuration and rules, loads the programs, starts recording.
    static Result<std::unique_ptr<Daemon>> start(const Options &options);
    Status run(); // until SIGTERM or SIGINT; whatever is under way is finished
    ~Daemon();

private:
    // Captures of living threads in their own context, a second: some 10 µs each, and room in the ring buffer.
    static constexpr std::uint32_t captures_per_second = 20;
    // How long the kernel side goes by what was last seen of the host's core handling: that is looked at every second.
    static constexpr std::uint64_t dump_terms_ns = 2'500'000'000;

    explicit Daemon(Options options) : options_(std::move(options)) {}
    Status open_state();
    Status wire();
    void apply_rules();
    bool take_events(std::uint64_t until_ns);
    void on_events();
    void on_occurrence(Occurrence &occurrence);
    void on_fire(const rules::Decision &decision, Assembly &assembly);
    void on_ready(Assembly assembly);
    bool keep(Assembly &assembly);
    static void make_light(Assembly &assembly);
    void dump(Assembly &assembly);
    void on_memory();
    void on_deadlines();
    void on_cost();
    CostSources cost_sources() const;
    void log(const Governor::Change &change) const;
    void obey_governor();
    bool review_steps();
    void record_durations();
    void describe_steps(ConditionStates &states) const;
    capture::CostRecord cost_record() const;
    void on_latency();
    void on_txg();
    void offer(const TxgStall &stall);
    void warn_of_states() const;
    ConditionStates condition_states() const;
    void on_started(const rules::ProcessFacts &process);
    void find_heaps();
    bool lives(std::uint32_t pid, std::uint64_t start_boot_ns) const;
    bool tracepoints_have_changed();
    void allow_dumps();
    void permit(const bpf::trigger_head &asked);
    std::string objection_to(const rules::Rule &fired, const rules::ProcessFacts &now) const;
    void on_written();
    enum class Awaited { Nothing, Core, Analysis };
    void settle(const std::string &bundle, Awaited known);
    void on_reported(const WriteResult &result);
    void report_late();
    void on_second();
    void on_cores();
    void reload();
    void tell_manager();
    void drain();
    void finish();
    std::string answer(const std::string &request);

    Options options_;
    std::vector<std::string> rule_directories_; // absolute
    std::optional<StateLock> lock_;
    rules::Config config_;
    std::vector<std::string> rule_errors_;
    std::optional<capture::Gap> gap_; // before this life
    bool reload_refused_ = false;     // the last one: the rules are those of before
    std::string told_;                // the service manager, of our state
    std::map<std::string, std::optional<std::uint32_t>> tracepoints_seen_; // those rules want, and their numbers
    std::optional<rules::Engine> engine_;
    TriggerPlan plan_;
    RuleHistory history_;
    std::optional<rules::StormPolicy> storm_;
    std::optional<Dumper> dumper_;
    std::string core_settings_; // of the host, and how often they have changed
    std::uint32_t permit_round_ = 0;
    CostMeter costs_;
    CostLoads loads_;
    std::optional<CostMeasurement> measured_; // the last
    Governor governor_;
    BlockedWatch blocked_;
    MemoryWatch memory_{capture::OsRoots{}};
    ReclaimWatch reclaim_{capture::OsRoots{}};
    std::optional<Recorder> recorder_;
    std::unique_ptr<EventReader> reader_;
    std::optional<LatencyWatch> latency_; // its probes are the recorder's
    std::optional<HeapWatch> heaps_;
    std::optional<TxgWatch> txg_;
    // By pool: the group that was offered last, and the longest deadline it was offered for in flight.
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> txg_told_;
    std::optional<capture::IncidentsDir> incidents_;
    std::unique_ptr<Writer> writer_;
    std::optional<Hook> hook_;
    std::unique_ptr<Analyst> analyst_; // hands what it finds to the writer
    std::optional<Assembler> assembler_;
    std::optional<CoreFollower> cores_;
    std::optional<Control> control_;
    std::optional<EventLoop> loop_;
    struct Written { // a bundle under way whose core is to be looked for
        capture::IncidentInput input;
        std::string exe, auxv;
    };
    std::map<std::string, Written> core_wanted_;
    std::map<std::string, std::set<Awaited>> awaited_; // what is still to be known of a bundle before it is reported
    std::string boot_id_;
    IncidentCounters counters_;
    std::uint64_t started_ns_ = 0;
    std::uint64_t seconds_ = 0;
    std::uint64_t lost_deaths_ = 0;
    bool lost_again_ = false;
    std::uint64_t tend_delay_ns_ = 0;
    EventLoop::Timer tend_timer_, second_timer_, core_timer_, memory_timer_, deadline_timer_, cost_timer_,
        latency_timer_, txg_timer_;
};

// --check: prints every diagnostic to stderr and a summary to stdout; exit status.
int check(const Options &options);

} // namespace incident::daemon
