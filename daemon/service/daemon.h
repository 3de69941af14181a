// The daemon: one event loop over the ring buffer, the writer, the control socket, signals and a clock.  Each part does
// its work in its own file; the daemon only passes things from one part to the next.
#pragma once

#include "daemon/assemble/assembly.h"
#include "daemon/dump/dump_control.h"
#include "daemon/modules/kept_modules.h"
#include "daemon/os/clock_changes.h"
#include "daemon/os/event_loop.h"
#include "daemon/record/event_reader.h"
#include "daemon/record/recorder.h"
#include "daemon/service/control.h"
#include "daemon/service/cost_control.h"
#include "daemon/service/options.h"
#include "daemon/service/rule_files.h"
#include "daemon/watch/watches.h"
#include "daemon/write/delivery.h"

#include <memory>

namespace incident::daemon {

class Daemon : private AssemblyListener {
public:
    // Reads configuration and rules, loads the programs, starts recording.
    static Result<std::unique_ptr<Daemon>> start(const Options &options);
    Status run(); // until SIGTERM or SIGINT; finishes the incidents that are under way
    ~Daemon() override;

private:
    explicit Daemon(Options options) : options_(std::move(options)) {}
    Status take_state();
    Status divide_rights();
    Status open_state();
    Status start_recording();
    Status enter_loop();

    // ---- events and time ----------------------------------------------------------------
    bool take_events(std::uint64_t until_ns);
    void on_events();
    void on_watches();
    void arm_watches();
    void on_second();
    void find_lost_deaths(std::uint64_t now_ns);
    void on_cost();

    // ---- incidents ------------------------------------------------------------------------
    void on_ready(Assembly assembly) override;
    void before_rules(Occurrence &occurrence) override {
        watches_->each([&](Watch &watch) { watch.before_rules(occurrence); });
    }
    void on_fire(const rules::Decision &decision, Assembly &assembly) override;
    void on_started(const rules::ProcessFacts &process) override;
    void on_watched(const capture::Subject &process) override;
    void on_permit(const bpf::trigger_head &asked) override { dumps_->permit(asked); }
    bool on_other(const bpf::event_header &header, std::span<const std::uint8_t> bytes) override;
    void dump(Assembly &assembly);

    // ---- rules and status -----------------------------------------------------------------
    void apply_rules();
    void reload();
    ConditionStates condition_states() const;
    void warn_of_states() const;
    void tell_manager();
    std::string answer(const std::string &request);
    void finish();
    void end(std::string why); // with an error; the manager starts it again

    Options options_;
    std::vector<std::string> rule_directories_; // absolute
    rules::Config config_;
    std::vector<std::string> rule_errors_;
    bool reload_refused_ = false; // the last reload was refused, and the rules are still the old ones
    std::string told_;            // what the service manager was told of our state
    std::string boot_id_;
    std::uint64_t started_ns_ = 0, seconds_ = 0;
    std::uint64_t lost_deaths_ = 0;
    std::uint64_t dropped_before_ = 0; // events, when nothing was under way
    bool lost_again_ = false;
    std::string ended_because_;
    std::vector<std::pair<int, std::string>> ends_with_; // processes without which the daemon ends; and why
    std::uint64_t tend_delay_ns_ = 0;

    ClockChanges clock_;
    FactsCache facts_{capture::OsRoots{}};
    std::optional<StateLock> lock_;
    std::optional<capture::IncidentsDir> incidents_; // until delivery_ has them
    std::optional<DeliveryProcesses> processes_;     // likewise
    std::optional<RulesInForce> rules_;
    std::optional<Recorder> recorder_;
    Result<std::shared_ptr<KeptModules>> kept_modules_;
    std::unique_ptr<Delivery> delivery_;
    std::optional<DumpControl> dumps_;
    std::optional<Watches> watches_;
    std::optional<CostControl> costs_;
    std::optional<Assembler> assembler_;
    std::optional<Control> control_;
    std::unique_ptr<EventReader> reader_;
    std::optional<EventLoop> loop_; // the last, so that it ends before the descriptors that it waits for are closed
    EventLoop::Timer tend_timer_, watch_timer_, second_timer_, cost_timer_;
};

} // namespace incident::daemon
