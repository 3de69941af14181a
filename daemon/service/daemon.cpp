#include "daemon/service/daemon.h"

#include "daemon/os/clocks.h"
#include "daemon/os/reserve.h"
#include "daemon/os/rights.h"
#include "daemon/os/tracefs.h"
#include "daemon/record/attacher.h"
#include "daemon/service/all_watches.h"
#include "daemon/service/open_modules.h"
#include "daemon/service/preflight.h"
#include "daemon/service/status.h"

#include <malloc.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>

#include <csignal>
#include <filesystem>

namespace incident::daemon {

namespace {

constexpr std::uint64_t millisecond = 1'000'000;
// How soon an open assembly is looked at again: thread events come without a wake-up.
constexpr std::uint64_t first_tend_ns = millisecond / 2, last_tend_ns = 16 * millisecond;
constexpr std::uint64_t events_slice_ns = 50 * millisecond; // of the loop's time at once
constexpr std::uint64_t rings_read = 16;                    // so many times the ring buffer may wait to be looked at
constexpr std::uint64_t first_cost_ns = 1000 * millisecond; // when costs are measured first
constexpr std::uint64_t alive_every_s = 60;
constexpr unsigned started_s = 3;
// Captures of living threads in their own context, a second: some 10 µs each, and room in the ring buffer.
constexpr std::uint32_t captures_per_second = 20;

std::string boot_id() {
    sd_id128_t id;
    char text[SD_ID128_STRING_MAX];
    return sd_id128_get_boot(&id) < 0 ? std::string() : std::string(sd_id128_to_string(id, text));
}

// For whoever asks from another directory; "" where there is none.
std::string config_in_use(const Options &options) {
    const std::string config = options.config.empty() ? std::string(default_config) : options.config;
    std::error_code error;
    return std::filesystem::exists(config, error) ? std::filesystem::absolute(config).string() : std::string();
}

// Stack bytes of the rule that wants most: what the kernel side copies.
std::uint32_t stack_wanted(std::span<const rules::Rule> rules) {
    std::uint32_t most = 0;
    for (const auto &rule : rules)
        if (rule.enabled)
            most = std::max(most, rule.context.stack_bytes);
    return most;
}

// Without its last newline: the log adds one.
std::string diagnostic_text(const rules::Diagnostic &diagnostic) {
    std::string text = diagnostic.text();
    if (text.ends_with('\n'))
        text.pop_back();
    return text;
}

std::vector<std::string> texts(const std::vector<rules::Diagnostic> &diagnostics) {
    std::vector<std::string> all;
    all.reserve(diagnostics.size());
    for (const auto &diagnostic : diagnostics)
        all.push_back(diagnostic_text(diagnostic));
    return all;
}

void log_all(const std::vector<rules::Diagnostic> &diagnostics) {
    for (const auto &diagnostic : diagnostics)
        if (diagnostic.severity == rules::Severity::Error)
            spdlog::error("{}", diagnostic_text(diagnostic));
        else
            spdlog::warn("{}", diagnostic_text(diagnostic));
}

} // namespace

Result<std::unique_ptr<Daemon>> Daemon::start(const Options &options) {
    // Before any thread is made, for threads inherit the mask: only the event loop takes these.
    if (auto blocked = EventLoop::block_signals({SIGTERM, SIGINT, SIGHUP}); !blocked)
        return fail(blocked.error());
    if (auto ready = preflight(); !ready)
        return fail(ready.error());
    std::unique_ptr<Daemon> daemon(new Daemon(options));
    for (const std::string &directory : rule_directories(options)) // for whoever asks from another directory
        daemon->rule_directories_.push_back(std::filesystem::absolute(directory));
    auto config = load_config_of(options);
    if (!config)
        return fail(config.error());
    log_all(config->diagnostics);
    if (!config->ok())
        return fail("the configuration has errors; 'incidentd --check' shows them");
    daemon->config_ = config->config;
    spdlog::set_level(spdlog::level::from_str(daemon->config_.log_level));

    auto loaded = load_rules_of(options, daemon->config_.safety.allow_dump);
    if (!loaded)
        return fail(loaded.error());
    log_all(loaded->parsed.diagnostics); // the good rules are used all the same
    daemon->rule_errors_ = texts(loaded->parsed.diagnostics);
    daemon->rules_.emplace(std::move(loaded->parsed.rules));
    if (daemon->rules_->rules().empty())
        spdlog::warn("no rules: nothing is watched");

    daemon->boot_id_ = boot_id();
    daemon->started_ns_ = clock_ns(CLOCK_MONOTONIC);
    for (const auto step : {&Daemon::take_state, &Daemon::divide_rights, &Daemon::open_state, &Daemon::start_recording,
                            &Daemon::enter_loop})
        if (auto done = ((*daemon).*step)(); !done)
            return fail(done.error());
    return daemon;
}

Daemon::~Daemon() = default;

Status Daemon::take_state() {
    auto incidents = capture::IncidentsDir::open(options_.state, true);
    if (!incidents)
        return fail(incidents.error());
    auto lock = StateLock::take(options_.state);
    if (!lock)
        return fail(lock.error());
    lock_.emplace(std::move(*lock)); // from here on the state is ours
    if (const auto &before = lock_->before(); before && !before->stopped)
        spdlog::warn("incidentd[{}] was killed, or the machine went down: from {} until now nothing was recorded",
                     before->pid, utc_text(before->seen_s));
    else if (before)
        spdlog::info("incidentd[{}] was stopped: from {} until now nothing was recorded", before->pid,
                     utc_text(before->seen_s));
    incidents_.emplace(std::move(*incidents));
    return {};
}

// Before any thread is made.  This process reads what others write; what could change the machine is done by others,
// which only do what they are asked.
Status Daemon::divide_rights() {
    auto recorder = Recorder::start(config_.record, stack_wanted(rules_->rules()));
    if (!recorder)
        return fail(recorder.error());
    recorder_.emplace(std::move(*recorder));
    clock_.tell_thawed([this] { return recorder_ ? recorder_->thawed_at() : capture::MonotonicTime{}; });
    recorder_->leave_out_self();
    auto processes = DeliveryProcesses::start(options_.state, config_);
    if (!processes)
        return fail(processes.error());
    ends_with_ = {{recorder_->attacher().ended(), "incidentd-bpf has ended: it loads and attaches the BPF programs"}};
    if (processes->tool)
        ends_with_.emplace_back(processes->tool->ended(), "incidentd-tool has ended: it has incidents analysed");
    if (processes->manager)
        ends_with_.emplace_back(processes->manager->ended(), "incidentd-hook has ended: it has the hook started");
    processes_.emplace(std::move(*processes));
    processes_->bpf_code = [this] { return ask_for_bpf_code(recorder_->attacher()); };
    (void)tracefs_is_there(); // it may have to be mounted
    constexpr int others[] = {CAP_SYS_ADMIN, CAP_BPF, CAP_PERFMON, CAP_SETUID, CAP_SETGID};
    return drop_capabilities(others);
}

Status Daemon::open_state() {
    kept_modules_ = open_kept_modules(options_.state, config_.budget);
    processes_->gives_way = gives_way_to(incidents_->path(), options_.state, kept_modules_);
    auto delivery = Delivery::open(std::move(*incidents_), options_.state, config_, std::move(*processes_));
    if (!delivery)
        return fail(delivery.error());
    delivery_ = std::move(*delivery);
    return {};
}

Status Daemon::start_recording() {
    dumps_.emplace(*recorder_, *rules_, capture::OsRoots{}, config_.safety, options_.state);
    if (auto kept = dumps_->hour().keep_in(options_.state, boot_id_, started_ns_); !kept)
        spdlog::error("{}; a fresh hour of dumps begins", kept.error().what);
    watches_.emplace(WatchContext{
        .os = {}, .recorder = *recorder_, .facts = facts_, .rules = *rules_, .occur = [this](Occurrence occurrence) {
            assembler_->occur(std::move(occurrence));
        }});
    add_all(*watches_, config_, kept_modules_);
    costs_.emplace(*recorder_, *rules_, *watches_, config_);
    assembler_.emplace(*recorder_, *rules_, facts_, static_cast<AssemblyListener &>(*this), clock_, capture::OsRoots{},
                       boot_id_, config_.capture.deadline);
    apply_rules();
    return {};
}

Status Daemon::enter_loop() {
    // Whoever can connect knows that recording has begun.
    auto control = Control::listen(options_.state, [this](const std::string &request) { return answer(request); });
    if (!control)
        return fail(control.error());
    control_.emplace(std::move(*control));
    auto loop = EventLoop::create();
    if (!loop)
        return fail(loop.error());
    loop_.emplace(std::move(*loop));
    auto reader = EventReader::start(*recorder_, rings_read * config_.record.ring_buffer);
    if (!reader)
        return fail(reader.error());
    reader_ = std::move(*reader);
    for (const auto &[timer, callback] :
         std::initializer_list<std::pair<EventLoop::Timer &, void (Daemon::*)()>>{{tend_timer_, &Daemon::on_events},
                                                                                  {watch_timer_, &Daemon::on_watches},
                                                                                  {second_timer_, &Daemon::on_second},
                                                                                  {cost_timer_, &Daemon::on_cost}}) {
        auto made = loop_->timer([this, callback] { (this->*callback)(); });
        if (!made)
            return fail(made.error());
        timer = *made;
    }
    cost_timer_.arm_in(first_cost_ns);
    second_timer_.arm_in(1000 * millisecond);
    on_watches();
    for (const auto &wired : {
             loop_->on_readable(reader_->fd(),
                                [this] {
                                    tend_delay_ns_ = first_tend_ns;
                                    on_events();
                                }),
             loop_->on_readable(control_->fd(), [this] { control_->serve(); }),
             loop_->on_signal(SIGTERM, [this] { loop_->stop(); }),
             loop_->on_signal(SIGINT, [this] { loop_->stop(); }),
             loop_->on_signal(SIGHUP, [this] { reload(); }),
             delivery_->attach(*loop_),
         })
        if (!wired)
            return wired;
    for (const auto &[process, why] : ends_with_)
        if (auto wired = loop_->on_readable(process, [this, why] { end(why); }); !wired)
            return wired;
    if (clock_.fd() >= 0)
        if (auto wired = loop_->on_readable(clock_.fd(), [this] { clock_.look(); }); !wired)
            return wired;
    loop_->watchdog();
    return give_up_connections(); // the control socket is there, and who can start units is another process
}

Status Daemon::run() {
    warn_of_states();
    const auto use = recorder_->use();
    spdlog::info(
        "recording: {} rules, up to {} threads, {} MiB for their calls, {} MiB of kernel memory; incidents in {}",
        rules_->rules().size(), use.threads_max, use.calls_bytes >> 20, use.memory_bytes >> 20, delivery_->directory());
    if (const auto &before = lock_->before())
        delivery_->set_gap(capture::Gap{before->pid,
                                        before->stopped,
                                        {static_cast<std::uint64_t>(before->seen_s) * 1'000'000'000},
                                        {clock_ns(CLOCK_REALTIME) - (clock_ns(CLOCK_MONOTONIC) - started_ns_)},
                                        {clock_ns(CLOCK_BOOTTIME) - (clock_ns(CLOCK_MONOTONIC) - started_ns_)}});
    if (const auto begun = lock_->begin(); !begun)
        return begun;
    sd_notify(0, "READY=1");
    tell_manager();
    const auto ran = loop_->run();
    loop_->forget_descriptors();
    sd_notify(0, "STOPPING=1\nSTATUS=Writing the incidents under way");
    finish();
    if (!ended_because_.empty())
        return fail(ended_because_);
    return ran;
}

void Daemon::end(std::string why) {
    ended_because_ = std::move(why);
    loop_->stop();
}

// Until there is none, or until then (then the reader's descriptor stays readable); whether there is none.
bool Daemon::take_events(std::uint64_t until_ns) {
    while (const auto event = reader_->next()) {
        assembler_->take(*event);
        if (clock_ns(CLOCK_MONOTONIC) >= until_ns)
            return false;
    }
    return true;
}

void Daemon::on_events() {
    const bool all = take_events(clock_ns(CLOCK_MONOTONIC) + events_slice_ns);
    const bool open = assembler_->tend(clock_ns(CLOCK_MONOTONIC), all);
    if (all && open) {
        tend_timer_.arm_in(tend_delay_ns_);
        tend_delay_ns_ = std::min(tend_delay_ns_ * 2, last_tend_ns);
    } // else others have a turn, or nothing is open
    if (all && !open)
        dropped_before_ = reader_->dropped();
    arm_watches();
}

void Daemon::on_watches() {
    watches_->poll(clock_ns(CLOCK_MONOTONIC));
    on_events(); // the snapshots' own
}

void Daemon::arm_watches() {
    if (const std::uint64_t due = watches_->due_ns(); due != Watch::never)
        watch_timer_.arm_in(due - std::min(due, clock_ns(CLOCK_MONOTONIC)));
    else
        watch_timer_.disarm();
}

void Daemon::on_second() {
    clock_.look();
    on_events(); // what came without a wake-up; and a death that waits there is not lost
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    find_lost_deaths(now);
    recorder_->allow_captures(captures_per_second);
    recorder_->decide_where_due();
    recorder_->tend_pool();
    if (watches_->tend(now))
        reload();
    dumps_->allow(now);
    tell_manager();
    if (hold_memory_reserve())
        spdlog::warn("no more memory is to be had (RLIMIT_AS, vm.overcommit_memory): a reserve of {} MiB was given up, "
                     "and incidents that need more than there is fail",
                     memory_reserve >> 20);
    if (++seconds_ % alive_every_s == 0) {
        lock_->alive();
        recorder_->tend_requests();
    }
    if (seconds_ == started_s)
        ::malloc_trim(0); // what loading programs and symbols took once: half of the heap
    second_timer_.arm_in(1000 * millisecond);
}

// Deaths whose event was lost.  Two map look-ups when there are none.
void Daemon::find_lost_deaths(std::uint64_t now_ns) {
    const auto counts = recorder_->loss_counts();
    const auto lost = counts[bpf::LOSS_DEATH_EVENT] + counts[bpf::LOSS_GONE_EVENT];
    if (lost != lost_deaths_) {
        assembler_->find_lost(now_ns);
        tend_delay_ns_ = first_tend_ns;
        on_events();
        lost_again_ = lost_deaths_ != lost;
        lost_deaths_ = lost;
    } else if (lost_again_) { // those too young a second ago
        lost_again_ = false;
        assembler_->find_lost(now_ns);
    }
}

void Daemon::on_cost() {
    cost_timer_.arm_in(costs_->tick(clock_ns(CLOCK_MONOTONIC)));
    arm_watches();
    tell_manager();
}

void Daemon::on_ready(Assembly assembly) {
    if (const std::uint64_t dropped = reader_->dropped() - dropped_before_)
        assembly.input.losses.push_back(dropped_events(dropped));
    dump(assembly);
    delivery_->take(std::move(assembly));
}

void Daemon::on_fire(const rules::Decision &decision, Assembly &assembly) {
    assembly.input.cost = costs_->record(assembly.input.process.event.h.tgid);
    const FiredIncident incident{decision, assembly.input, assembly.collected, assembly.late};
    watches_->each([&](const Watch &watch) { watch.add_context(incident); });
}

// Which probes go into it follows from what it executes now.
void Daemon::on_started(const rules::ProcessFacts &process) {
    spdlog::debug("started: {} pid {} exe {}", process.comm, process.pid, process.exe);
    watches_->started(process);
}

void Daemon::on_watched(const capture::Subject &process) {
    watches_->each([&](Watch &watch) { watch.watched(process); });
}

bool Daemon::on_other(const bpf::event_header &header, std::span<const std::uint8_t> bytes) {
    return watches_->take(header, bytes);
}

void Daemon::dump(Assembly &assembly) {
    const auto &subject = assembly.input.process.event;
    const auto now = clock_ns(CLOCK_MONOTONIC);
    auto &record = assembly.input.dump;
    if (assembly.dumped)
        record = {.asked = true, .sent = true, .signal = assembly.dumped, .by_kernel = true};
    else if (assembly.rule->dump)
        record = dumps_->dump(*assembly.rule, assembly.facts, capture::program_of(subject.h), subject.dumpable, now);
    if (!record.asked)
        return;
    if (record.sent) {
        if (record.by_kernel)
            dumps_->sent_by_kernel(assembly.facts, now);
        else
            assembler_->expect_death(process_of(subject.h));
        spdlog::info("rule {}: {} sent to pid {} ({}) by the {}", assembly.rule->name, record.signal, subject.h.tgid,
                     assembly.facts.comm, record.by_kernel ? "kernel side" : "daemon");
    } else {
        spdlog::warn("rule {}: pid {} ({}) is not made to dump core: {}", assembly.rule->name, subject.h.tgid,
                     assembly.facts.comm, record.refused);
    }
}

// Hands the rules to everything that works for them.
void Daemon::apply_rules() {
    rules_->plan = plan_triggers(rules_->rules(), config_.safety.allow_dump);
    rules_->history.begin(rules_->plan, rules_->rules(), [](const TriggerPlan::Tracepoint &tracepoint) {
        return tracepoint_format(tracepoint.category, tracepoint.name).value_or("");
    });
    recorder_->apply(rules_->engine, rules_->plan);
    costs_->record_durations();
    recorder_->allow_captures(captures_per_second);
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    dumps_->allow(now);
    watches_->apply(now);
}

void Daemon::reload() {
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
               static_cast<unsigned long long>(clock_ns(CLOCK_MONOTONIC) / 1000));
    auto loaded = load_rules_of(options_, config_.safety.allow_dump);
    reload_refused_ = !loaded || !loaded->parsed.ok();
    if (!loaded) {
        spdlog::error("reload: {}; the rules stay as they were", loaded.error().what);
        rule_errors_ = {loaded.error().what};
    } else if (log_all(loaded->parsed.diagnostics); !loaded->parsed.ok()) {
        spdlog::error("reload: the rules have errors and stay as they were");
        rule_errors_ = texts(loaded->parsed.diagnostics);
    } else {
        rule_errors_ = texts(loaded->parsed.diagnostics);
        rules_->engine.replace(std::move(loaded->parsed.rules));
        apply_rules();
        if (costs_->review(clock_ns(CLOCK_MONOTONIC)))
            cost_timer_.arm_in(first_cost_ns); // what is tried anew may be too much still
        on_watches();
        warn_of_states();
        spdlog::info("reloaded: {} rules", rules_->rules().size());
    }
    tell_manager();
    sd_notify(0, "READY=1");
}

ConditionStates Daemon::condition_states() const {
    ConditionStates states;
    watches_->each([&](const Watch &watch) { watch.describe(states); });
    costs_->describe(states);
    return states;
}

// What keeps rules from doing all they say.
void Daemon::warn_of_states() const {
    const ConditionStates states = condition_states();
    for (const auto &rule : rules_->rules())
        if (const auto state = state_of(rule, recorder_->families(), states);
            state.state != "active" && state.state != "disabled")
            spdlog::warn("rule {} is {}: {}", rule.name, state.state, state.reason);
}

// What `systemctl status` shows, when it has changed.
void Daemon::tell_manager() {
    const std::string line = status_line({.engine = rules_->engine,
                                          .families = recorder_->families(),
                                          .conditions = condition_states(),
                                          .complaints = rule_errors_.size(),
                                          .reload_refused = reload_refused_,
                                          .incidents = delivery_->counters(),
                                          .pending = assembler_->open() + delivery_->pending(),
                                          .cost_steps = costs_->governor().steps().size(),
                                          .cost_beyond_steps = costs_->governor().at_the_end()});
    if (line == told_)
        return;
    told_ = line;
    sd_notifyf(0, "STATUS=%s", line.c_str());
}

std::string Daemon::answer(const std::string &request) {
    if (requested_verb(request) != "status")
        return "{\"error\": \"unknown request\"}\n";
    const auto now = clock_ns(CLOCK_MONOTONIC);
    const ConditionStates states = condition_states();
    const CostStatus costs = costs_->status();
    return status_json({.recorder = *recorder_,
                        .engine = rules_->engine,
                        .delivery = *delivery_,
                        .watches = *watches_,
                        .conditions = states,
                        .costs = costs,
                        .rule_errors = rule_errors_,
                        .assemblies = assembler_->counters(),
                        .pending = assembler_->open() + delivery_->pending(),
                        .state = options_.state,
                        .config = config_in_use(options_),
                        .rule_directories = rule_directories_,
                        .before = lock_->before(),
                        .started_realtime_ns = clock_ns(CLOCK_REALTIME) - (now - started_ns_),
                        .uptime_ns = now - started_ns_,
                        .dropped_events = reader_->dropped()});
}

// Incidents under way are closed with what is there and written.
void Daemon::finish() {
    spdlog::info("stopping");
    delivery_->end_analyses();
    take_events(~0ull);
    assembler_->close_all();
    // As long as it goes on, the manager is asked to wait for it.
    delivery_->finish([] { sd_notify(0, "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=30000000"); });
    dumps_->hour().take_back_lent(clock_ns(CLOCK_MONOTONIC));
    lock_->release();
}

} // namespace incident::daemon
