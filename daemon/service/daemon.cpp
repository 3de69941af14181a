#include "daemon/service/daemon.h"

#include "capture/collect/collect_zfs.h"
#include "capture/render/render.h"
#include "daemon/facts/facts.h"
#include "daemon/os/clocks.h"
#include "daemon/os/tracefs.h"
#include "daemon/service/preflight.h"
#include "daemon/write/access.h"

#include <fmt/format.h>
#include <malloc.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <sys/random.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>

#include <csignal>
#include <filesystem>
#include <system_error>

namespace incident::daemon {

namespace {

constexpr std::uint64_t millisecond = 1'000'000;
// How soon an open assembly is looked at again: thread events come without a wake-up.
constexpr std::uint64_t first_tend_ns = millisecond / 2, last_tend_ns = 16 * millisecond;
constexpr std::uint64_t events_slice_ns = 50 * millisecond; // of the loop's time at once
constexpr std::uint64_t rings_read = 16;                    // so many times the ring buffer may wait to be looked at
constexpr std::uint64_t core_look_ns = 100 * millisecond;
constexpr std::uint64_t hook_patience_ns = 5000 * millisecond; // at the end; systemd may be shutting down itself
constexpr std::uint64_t first_cost_ns = 1000 * millisecond;    // when costs are measured first
constexpr std::uint64_t alive_every_s = 60;
constexpr unsigned started_s = 3;

std::string boot_id() {
    sd_id128_t id;
    char text[SD_ID128_STRING_MAX];
    return sd_id128_get_boot(&id) < 0 ? std::string() : std::string(sd_id128_to_string(id, text));
}

std::string short_id() {
    std::uint32_t value = 0;
    if (::getrandom(&value, sizeof(value), 0) != sizeof(value))
        value = static_cast<std::uint32_t>(clock_ns(CLOCK_MONOTONIC));
    return fmt::format("{:06x}", value & 0xffffff);
}

std::vector<std::string> rule_directories(const Options &options) {
    return options.rules.empty() ? default_rule_dirs : options.rules;
}

Result<rules::ParsedConfig> read_config(const Options &options) {
    return load_config(options.config.empty() ? default_config : options.config, !options.config.empty());
}

// For whoever asks from another directory; "" where there is none.
std::string config_in_use(const Options &options) {
    const std::string config = options.config.empty() ? std::string(default_config) : options.config;
    std::error_code error;
    return std::filesystem::exists(config, error) ? std::filesystem::absolute(config).string() : std::string();
}

// Stack bytes of the rule that wants most: what the kernel side copies.
std::uint32_t stack_wanted(const rules::Engine &engine) {
    std::uint32_t most = 0;
    for (const auto &rule : engine.rules())
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
    auto config = read_config(options);
    if (!config)
        return fail(config.error());
    log_all(config->diagnostics);
    if (!config->ok())
        return fail("the configuration has errors; 'incidentd --check' shows them");
    daemon->config_ = config->config;
    spdlog::set_level(spdlog::level::from_str(daemon->config_.log_level));
    const auto cost_every = static_cast<std::uint64_t>(daemon->config_.cost.every.count());
    daemon->costs_.set_period(cost_every);
    daemon->governor_ = Governor({daemon->config_.cost.budget, cost_every});

    auto loaded = load_rules(rule_directories(options), !options.rules.empty(), daemon->config_.safety.allow_dump);
    if (!loaded)
        return fail(loaded.error());
    log_all(loaded->parsed.diagnostics); // the good rules are used all the same
    daemon->rule_errors_ = texts(loaded->parsed.diagnostics);
    daemon->engine_.emplace(std::move(loaded->parsed.rules));
    if (daemon->engine_->rules().empty())
        spdlog::warn("no rules: nothing is watched");

    daemon->boot_id_ = boot_id();
    daemon->started_ns_ = clock_ns(CLOCK_MONOTONIC);
    if (auto opened = daemon->open_state(); !opened)
        return fail(opened.error());
    auto recorder = Recorder::start(daemon->config_.record, stack_wanted(*daemon->engine_));
    if (!recorder)
        return fail(recorder.error());
    daemon->recorder_.emplace(std::move(*recorder));
    daemon->hook_.emplace(daemon->config_.hook.unit, daemon->config_.hook.per_hour);
    daemon->storm_.emplace(daemon->config_.storm);
    daemon->txg_.emplace(capture::OsRoots{}, TxgProbes::of(*daemon->recorder_));
    daemon->latency_.emplace(*daemon->recorder_, capture::OsRoots{});
    daemon->heaps_.emplace(capture::OsRoots{}, UprobeAbilities::here());
    daemon->dumper_.emplace(capture::OsRoots{}, daemon->config_.safety, daemon->recorder_->dump_allowance(),
                            options.state);
    if (auto kept = daemon->dumper_->hour().keep_in(options.state, daemon->boot_id_, daemon->started_ns_); !kept)
        spdlog::error("{}; a fresh hour of dumps begins", kept.error().what);
    daemon->apply_rules();
    if (auto wired = daemon->wire(); !wired)
        return fail(wired.error());
    return daemon;
}

Daemon::~Daemon() = default;

Status Daemon::open_state() {
    auto incidents = capture::IncidentsDir::open(options_.state, true);
    if (!incidents)
        return fail(incidents.error());
    auto lock = StateLock::take(options_.state);
    if (!lock)
        return fail(lock.error());
    lock_.emplace(std::move(*lock)); // from here on the state is ours
    if (auto granted = grant_access(options_.state, config_.access.group); !granted)
        spdlog::error("{}; incidents are for root alone", granted.error().what); // no reason not to record
    if (const auto &before = lock_->before(); before && !before->stopped)
        spdlog::warn("incidentd[{}] was killed, or the machine went down: from {} until now nothing was recorded",
                     before->pid, utc_text(before->seen_s));
    else if (before)
        spdlog::info("incidentd[{}] was stopped: from {} until now nothing was recorded", before->pid,
                     utc_text(before->seen_s));
    auto recovered = incidents->recover();
    if (!recovered)
        return fail(recovered.error());
    for (const auto &line : *recovered)
        spdlog::warn("{}", line);
    counters_.recovered = recovered->size();
    auto own = capture::IncidentsDir::open(options_.state, false); // the writer's
    if (!own)
        return fail(own.error());
    const Budget budget{config_.budget.bundles, config_.budget.bytes, config_.budget.keep_free};
    if (Retention(budget).short_of_space(*incidents))
        spdlog::warn(
            "{}: less than [budget] keep_free = {} MiB is free: every new incident will remove the one before it",
            incidents->path(), budget.keep_free >> 20);
    auto writer = Writer::start(std::move(*own), {}, budget);
    if (!writer)
        return fail(writer.error());
    writer_ = std::move(*writer);
    const std::string program = config_.capture.analyse ? Analyst::find_program() : "";
    if (config_.capture.analyse && program.empty())
        spdlog::warn("incidentctl is not beside this program nor installed: incidents are explained when looked at");
    analyst_ = std::make_unique<Analyst>(program, options_.state, [this](std::string name, auto analysis) {
        AmendJob job{std::move(name), std::monostate{}};
        if (analysis)
            job.news = std::move(*analysis);
        writer_->submit(std::move(job));
    });
    incidents_.emplace(std::move(*incidents));
    return {};
}

Status Daemon::wire() {
    assembler_.emplace(
        *recorder_, *engine_, plan_, history_, capture::OsRoots{}, boot_id_, config_.capture.deadline,
        Assembler::Hooks{
            .on_ready = [this](Assembly assembly) { on_ready(std::move(assembly)); },
            .rules_of =
                [this](const rules::ProcessFacts &process) { return rules_of(plan_, engine_->rules(), process); },
            .on_occurrence = [this](Occurrence &occurrence) { on_occurrence(occurrence); },
            .on_fire = [this](const rules::Decision &decision, Assembly &assembly) { on_fire(decision, assembly); },
            .on_started = [this](const rules::ProcessFacts &process) { on_started(process); },
            .on_txg =
                [this](std::span<const std::uint8_t> bytes) {
                    if (const auto stall = txg_->on_event(bytes))
                        offer(*stall);
                },
            .on_code =
                [this](const bpf::event_header &loaded) {
                    latency_->code_loaded(loaded.tgid, clock_ns(CLOCK_MONOTONIC));
                },
            .on_latency =
                [this](const bpf::latency_event &event) {
                    return latency_->over(event, assembler_->facts(), history_, [this](Occurrence occurrence) {
                        assembler_->occur(std::move(occurrence));
                    }) > 0;
                },
            .on_permit = [this](const bpf::trigger_head &asked) { permit(asked); },
        });
    cores_.emplace(capture::OsRoots{});
    // Last, so that whoever can connect knows that recording has begun.
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
    auto tend = loop_->timer([this] { on_events(); });
    auto second = loop_->timer([this] { on_second(); });
    auto look = loop_->timer([this] { on_cores(); });
    auto memory = loop_->timer([this] { on_memory(); });
    auto deadline = loop_->timer([this] { on_deadlines(); });
    auto cost = loop_->timer([this] { on_cost(); });
    auto latency = loop_->timer([this] {
        on_latency();
        on_events(); // the snapshots' own
    });
    auto txg = loop_->timer([this] { on_txg(); });
    for (const auto *made : {&tend, &second, &look, &memory, &deadline, &cost, &latency, &txg})
        if (!*made)
            return fail(made->error());
    tend_timer_ = *tend;
    second_timer_ = *second;
    core_timer_ = *look;
    memory_timer_ = *memory;
    deadline_timer_ = *deadline;
    cost_timer_ = *cost;
    latency_timer_ = *latency;
    txg_timer_ = *txg;
    cost_timer_.arm_in(first_cost_ns);
    second_timer_.arm_in(1000 * millisecond);
    find_heaps();
    on_memory();
    on_deadlines();
    on_latency();
    on_txg();
    for (const auto &wired : {
             loop_->on_readable(reader_->fd(),
                                [this] {
                                    tend_delay_ns_ = first_tend_ns;
                                    on_events();
                                }),
             loop_->on_readable(writer_->fd(), [this] { on_written(); }),
             loop_->on_readable(control_->fd(), [this] { control_->serve(); }),
             loop_->on_signal(SIGTERM, [this] { loop_->stop(); }),
             loop_->on_signal(SIGINT, [this] { loop_->stop(); }),
             loop_->on_signal(SIGHUP, [this] { reload(); }),
         })
        if (!wired)
            return wired;
    hook_->attach(*loop_);
    report_late();
    loop_->watchdog();
    return {};
}

Status Daemon::run() {
    warn_of_states();
    const auto use = recorder_->use();
    spdlog::info(
        "recording: {} rules, up to {} threads with {} syscalls each, {} MiB of kernel memory; incidents in {}",
        engine_->rules().size(), use.threads_max, use.syscalls_per_thread, use.memory_bytes >> 20, incidents_->path());
    if (const auto &before = lock_->before())
        gap_ = capture::Gap{before->pid, before->stopped, static_cast<std::uint64_t>(before->seen_s) * 1'000'000'000,
                            clock_ns(CLOCK_REALTIME) - (clock_ns(CLOCK_MONOTONIC) - started_ns_)};
    if (const auto begun = lock_->begin(); !begun)
        return begun;
    sd_notify(0, "READY=1");
    tell_manager();
    const auto ran = loop_->run();
    sd_notify(0, "STOPPING=1\nSTATUS=Writing the incidents under way");
    finish();
    return ran;
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
    if (!take_events(clock_ns(CLOCK_MONOTONIC) + events_slice_ns))
        return; // others have a turn
    if (assembler_->tend(clock_ns(CLOCK_MONOTONIC))) {
        tend_timer_.arm_in(tend_delay_ns_);
        tend_delay_ns_ = std::min(tend_delay_ns_ * 2, last_tend_ns);
    }
}

void Daemon::on_ready(Assembly assembly) {
    const auto &event = assembly.input.process.event;
    const auto &clocks = assembly.input.clocks;
    const std::uint64_t realtime = event.h.t_ns + (clocks.realtime_ns - clocks.monotonic_ns);
    dump(assembly);
    if (!assembly.input.dump.sent && !keep(assembly))
        return;
    assembly.input.gap = gap_;
    WriteJob job;
    job.name = capture::bundle_name(realtime, assembly.rule->name, assembly.facts.comm, event.h.tgid, short_id());
    job.core = cores_->first_look(assembly.input);
    job.redact = config_.privacy.redact;
    if (job.core.pending) {
        const auto *auxv = assembly.collected.file("process/auxv");
        Written wanted;
        wanted.input.process.event = event;
        wanted.input.dump = assembly.input.dump;
        wanted.input.clocks = clocks;
        wanted.exe = assembly.facts.exe;
        wanted.auxv = auxv ? *auxv : std::string();
        core_wanted_.insert_or_assign(job.name, std::move(wanted));
    }
    const std::string name = job.name;
    job.incident = std::move(assembly);
    if (!writer_->submit(std::move(job))) {
        ++counters_.failed;
        ++counters_.failed_because["too many were waiting to be written"];
        core_wanted_.erase(name);
        spdlog::error("incident {} is lost: {} incidents already wait to be written, with {} MiB", name,
                      writer_->pending(), Writer::queue_limit >> 20);
    }
}

void Daemon::on_written() {
    for (const auto &result : writer_->take_results()) {
        if (!result.error.empty())
            spdlog::error("incident {}: {}", result.name, result.error);
        if (result.reported) {
            on_reported(result);
            continue;
        }
        if (result.amended) {
            settle(result.name, result.analysed ? Awaited::Analysis : Awaited::Core);
            if (!result.analysed)
                spdlog::debug("core of {}: {}", result.name, result.summary);
            else if (!result.summary.empty())
                spdlog::info("verdict on {}: {}", result.name, result.summary);
            continue;
        }
        const auto wanted = core_wanted_.extract(result.name);
        if (!result.error.empty() && !incidents_->bundle(result.name)) {
            ++counters_.failed;
            ++counters_.failed_because[result.error_code ? std::generic_category().message(result.error_code)
                                                         : "see the journal"];
            continue;
        }
        ++counters_.committed;
        awaited_[result.name];
        if (!result.light && analyst_ && analyst_->submit(result.name))
            awaited_[result.name].insert(Awaited::Analysis);
        spdlog::info("incident {}: {} (committed {:.1f} ms after the trigger, {:.1f} ms of writing)", result.name,
                     result.summary, static_cast<double>(result.since_trigger_ns) / 1e6,
                     static_cast<double>(result.took_ns) / 1e6);
        if (!wanted.empty()) {
            const auto give_up = static_cast<std::uint64_t>(config_.capture.core_wait.count());
            cores_->follow(result.name, wanted.mapped().input, wanted.mapped().exe, wanted.mapped().auxv,
                           wanted.mapped().input.clocks.monotonic_ns + give_up);
            awaited_[result.name].insert(Awaited::Core);
            on_cores();
        }
        settle(result.name, Awaited::Nothing);
    }
}

void Daemon::on_reported(const WriteResult &result) {
    if (!result.gone)
        hook_->start(result.name, clock_ns(CLOCK_MONOTONIC));
    if (!result.error.empty())
        return; // the next start tries again
    if (const auto marked = incidents_->set_reported(result.name, true); !marked)
        spdlog::error("{}", marked.error().what);
}

// Incidents the last daemon wrote and could not tell of.
void Daemon::report_late() {
    const auto names = incidents_->unreported();
    if (!names) {
        spdlog::error("{}", names.error().what);
        return;
    }
    for (const std::string &name : *names) {
        spdlog::info("incident {} was not reported before; it is now", name);
        writer_->submit(ReportJob{name});
    }
}

// The world is told of an incident once, when its core and its verdict are known or will not be.
void Daemon::settle(const std::string &bundle, Awaited known) {
    const auto found = awaited_.find(bundle);
    if (found == awaited_.end())
        return; // reported
    found->second.erase(known);
    if (!found->second.empty())
        return;
    awaited_.erase(found);
    writer_->submit(ReportJob{bundle});
}

void Daemon::on_cores() {
    for (auto &found : cores_->look(clock_ns(CLOCK_MONOTONIC)))
        writer_->submit(AmendJob{std::move(found.bundle), std::move(found.link)});
    if (cores_->waiting())
        core_timer_.arm_in(core_look_ns);
}

// Once a second: deaths whose event was lost.  Two map look-ups when there are none.
void Daemon::on_second() {
    on_events(); // what came without a wake-up; and a death that waits there is not lost
    const auto counts = recorder_->loss_counts();
    const auto lost = counts[bpf::LOSS_DEATH_EVENT] + counts[bpf::LOSS_GONE_EVENT];
    if (lost != lost_deaths_) {
        assembler_->find_lost(clock_ns(CLOCK_MONOTONIC));
        tend_delay_ns_ = first_tend_ns;
        on_events();
        lost_again_ = lost_deaths_ != lost;
        lost_deaths_ = lost;
    } else if (lost_again_) { // those too young a second ago
        lost_again_ = false;
        assembler_->find_lost(clock_ns(CLOCK_MONOTONIC));
    }
    recorder_->allow_captures(captures_per_second);
    latency_->forget_ended();
    heaps_->forget_ended([this](std::uint32_t pid, std::uint64_t start_boot_ns) { return lives(pid, start_boot_ns); });
    if (tracepoints_have_changed())
        reload(); // a filter could not be checked before
    allow_dumps();
    tell_manager();
    if (++seconds_ % alive_every_s == 0)
        lock_->alive();
    if (seconds_ == started_s)
        ::malloc_trim(0); // what loading programs and symbols took once: half of the heap
    second_timer_.arm_in(1000 * millisecond);
}

// What `systemctl status` shows, when it has changed.
void Daemon::tell_manager() {
    const std::string line = status_line({.engine = *engine_,
                                          .families = recorder_->families(),
                                          .conditions = condition_states(),
                                          .complaints = rule_errors_.size(),
                                          .reload_refused = reload_refused_,
                                          .incidents = counters_,
                                          .pending = assembler_->open() + writer_->pending(),
                                          .cost_steps = governor_.steps().size(),
                                          .cost_beyond_steps = governor_.at_the_end()});
    if (line == told_)
        return;
    told_ = line;
    sd_notifyf(0, "STATUS=%s", line.c_str());
}

void Daemon::reload() {
    sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%llu",
               static_cast<unsigned long long>(clock_ns(CLOCK_MONOTONIC) / 1000));
    auto loaded = load_rules(rule_directories(options_), !options_.rules.empty(), config_.safety.allow_dump);
    reload_refused_ = !loaded || !loaded->parsed.ok();
    if (!loaded) {
        spdlog::error("reload: {}; the rules stay as they were", loaded.error().what);
        rule_errors_ = {loaded.error().what};
    } else if (log_all(loaded->parsed.diagnostics); !loaded->parsed.ok()) {
        spdlog::error("reload: the rules have errors and stay as they were");
        rule_errors_ = texts(loaded->parsed.diagnostics);
    } else {
        rule_errors_ = texts(loaded->parsed.diagnostics);
        engine_->replace(std::move(loaded->parsed.rules));
        apply_rules();
        if (review_steps() && !costs_.counting())
            cost_timer_.arm_in(first_cost_ns); // what is tried anew may be too much still
        find_heaps();
        on_memory();
        on_deadlines();
        on_latency();
        on_txg();
        warn_of_states();
        spdlog::info("reloaded: {} rules", engine_->rules().size());
    }
    tell_manager();
    sd_notify(0, "READY=1");
}

// As long as it goes on, the manager is asked to wait for it.
void Daemon::drain() {
    on_written();
    for (std::size_t before = 0, left; (left = writer_->pending()) != 0; before = left, on_written()) {
        if (left != before)
            sd_notify(0, "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=30000000");
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

// Incidents under way are closed with what is there and written; cores still looked for
// stay "pending" in their bundles, and the reader looks again.
void Daemon::finish() {
    spdlog::info("stopping");
    analyst_.reset(); // what is not explained by now incidentctl explains when asked
    take_events(~0ull);
    assembler_->close_all();
    drain();
    for (const auto &[bundle, unknown] : std::exchange(awaited_, {}))
        writer_->submit(ReportJob{bundle});
    drain();
    hook_->finish(hook_patience_ns);
    dumper_->hour().take_back_lent(clock_ns(CLOCK_MONOTONIC));
    lock_->release();
}

std::string Daemon::answer(const std::string &request) {
    const auto parsed = nlohmann::json::parse(request, nullptr, false);
    const bool status = parsed.is_object() && parsed.contains("verb") && parsed["verb"] == "status";
    if (!status)
        return "{\"error\": \"unknown request\"}\n";
    const auto now = clock_ns(CLOCK_MONOTONIC);
    const ConditionStates states = condition_states();
    const CostStatus costs{costs_, governor_, measured_, static_cast<std::int64_t>(clock_ns(CLOCK_REALTIME) - now)};
    return status_json({*recorder_,
                        *engine_,
                        *storm_,
                        *hook_,
                        *heaps_,
                        config_.heap.memory,
                        states,
                        costs,
                        rule_errors_,
                        counters_,
                        analyst_->counters(),
                        analyst_->pending(),
                        assembler_->open() + writer_->pending(),
                        assembler_->counters().suppressed,
                        assembler_->counters().joined,
                        assembler_->counters().outdated,
                        options_.state,
                        config_in_use(options_),
                        rule_directories_,
                        lock_->before(),
                        clock_ns(CLOCK_REALTIME) - (now - started_ns_),
                        now - started_ns_});
}

int check(const Options &options) {
    std::size_t errors = 0;
    auto print = [&](const std::vector<rules::Diagnostic> &diagnostics) {
        for (const auto &diagnostic : diagnostics) {
            fmt::print(stderr, "{}", diagnostic.text());
            errors += diagnostic.severity == rules::Severity::Error;
        }
    };
    auto config = read_config(options);
    auto loaded =
        load_rules(rule_directories(options), !options.rules.empty(), config && config->config.safety.allow_dump);
    for (const auto *error : {config ? nullptr : &config.error(), loaded ? nullptr : &loaded.error()})
        if (error) {
            fmt::print(stderr, "incidentd: {}\n", error->what);
            ++errors;
        }
    if (config)
        print(config->diagnostics);
    if (loaded) {
        print(loaded->parsed.diagnostics);
        fmt::print("{} files, {} rules", loaded->files, loaded->parsed.rules.size());
        for (const auto &name : loaded->masked)
            fmt::print(", {} masked", name);
        fmt::print("{}\n", errors ? fmt::format(", {} errors", errors) : ": all is well");
    }
    return errors ? 1 : 0;
}

} // namespace incident::daemon
