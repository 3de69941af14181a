#include "daemon/write/delivery.h"

#include "capture/render/render.h"
#include "daemon/os/clocks.h"
#include "daemon/record/thread_limits.h"
#include "daemon/write/access.h"
#include "rules/model/user.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>
#include <sys/random.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

namespace incident::daemon {

namespace {

constexpr std::uint64_t again_ns = 1'000'000'000, tell_again_last_ns = 300'000'000'000;
constexpr std::chrono::seconds journal_patience{5}; // at the end; what is not told by then the next start tells
constexpr std::size_t calls_of_light = 128;         // of each thread
constexpr std::chrono::seconds hook_patience{5};    // at the end; systemd may be shutting down itself

std::string short_id() {
    std::uint32_t value = 0;
    if (::getrandom(&value, sizeof(value), 0) != sizeof(value))
        value = static_cast<std::uint32_t>(clock_ns(CLOCK_MONOTONIC));
    return fmt::format("{:06x}", value & 0xffffff);
}

// All but the newest `most` of those that began until then; what came later is few already.
void leave_out_calls(capture::ThreadRings &rings, std::uint64_t until_ns, std::size_t most) {
    const auto later = std::ranges::upper_bound(rings.syscalls, until_ns, {}, &bpf::syscall_record::start_ns);
    const auto before = static_cast<std::size_t>(later - rings.syscalls.begin());
    const std::size_t more = before - std::min(before, most);
    rings.syscalls.erase(rings.syscalls.begin(), rings.syscalls.begin() + static_cast<std::ptrdiff_t>(more));
    rings.calls_left_out += more;
    keep_those_of_calls(rings);
}

void make_light(Assembly &assembly) {
    auto &input = assembly.input;
    input.light = true;
    std::erase_if(assembly.collected.files, [](const auto &file) {
        return file.first != "process/maps" && file.first != "process/cmdline" && file.first != "process/cgroup";
    });
    for (auto &thread : input.process.threads) {
        if (thread.tid != input.process.event.h.tid)
            thread.stack.clear();
        if (thread.rings)
            leave_out_calls(*thread.rings, input.process.event.h.t_ns, calls_of_light);
    }
}

} // namespace

Result<DeliveryProcesses> DeliveryProcesses::start(const std::string &state, const rules::Config &config) {
    DeliveryProcesses all;
    const std::string program = config.capture.analyse ? Analyst::find_program() : "";
    if (config.capture.analyse && program.empty())
        spdlog::warn("incidentctl is not beside this program nor installed: incidents are explained when looked at");
    if (!program.empty()) {
        auto tool = AnalysisProcess::start(program, state);
        if (!tool)
            return fail(tool.error());
        all.tool = std::move(*tool);
    }
    if (!config.hook.unit.empty()) {
        auto manager = Manager::start(config.hook.unit);
        if (!manager)
            return fail(manager.error());
        all.manager = std::move(*manager);
    }
    return all;
}

Delivery::Delivery(capture::IncidentsDir incidents, const rules::Config &config)
    : incidents_(std::move(incidents)), config_(config), storm_(config.storm) {}

Delivery::~Delivery() = default;

Result<std::unique_ptr<Delivery>> Delivery::open(capture::IncidentsDir incidents, const std::string &state,
                                                 const rules::Config &config, DeliveryProcesses with) {
    std::unique_ptr<Delivery> delivery(new Delivery(std::move(incidents), config));
    if (auto opened = delivery->open_state(state, std::move(with)); !opened)
        return fail(opened.error());
    return delivery;
}

Status Delivery::open_state(const std::string &state, DeliveryProcesses with) {
    manager_ = std::move(with.manager);
    hook_.emplace(config_.hook.unit, config_.hook.per_hour,
                  [this](const std::string &incident) { return manager_->start_unit(incident); });
    if (auto granted = grant_access(state, config_.access.group); !granted)
        spdlog::error("{}; incidents are for root alone", granted.error().what); // no reason not to record
    auto recovered = incidents_.recover();
    if (!recovered)
        return fail(recovered.error());
    for (const auto &line : *recovered)
        spdlog::warn("{}", line);
    counters_.recovered = recovered->size();
    auto own = capture::IncidentsDir::open(state, false); // the writer's
    if (!own)
        return fail(own.error());
    const Budget budget{.bundles = config_.budget.bundles,
                        .bytes = config_.budget.bytes,
                        .keep_free = config_.budget.keep_free,
                        .at_least = config_.budget.at_least,
                        .reserve = config_.budget.reserve};
    if (short_of_space(incidents_, budget))
        spdlog::warn("{}: less than [budget] keep_free = {} MiB is free: new incidents take the place of older ones",
                     incidents_.path(), budget.keep_free >> 20);
    auto writer = Writer::start(std::move(*own), {}, budget, std::move(with.gives_way), std::move(with.bpf_code));
    if (!writer)
        return fail(writer.error());
    writer_ = std::move(*writer);
    auto reporter = Reporter::start();
    if (!reporter)
        return fail(reporter.error());
    reporter_ = std::move(*reporter);
    auto cores = CoreSearch::start(CoreFollower(capture::OsRoots{}));
    if (!cores)
        return fail(cores.error());
    cores_ = std::move(*cores);
    auto words = WordsSearch::start(WordsFollower(state, capture::OsRoots{}));
    if (!words)
        return fail(words.error());
    words_ = std::move(*words);
    analyst_ =
        std::make_unique<Analyst>(std::move(with.tool), [this](std::string name, std::uint32_t user, auto analysis) {
            AmendJob job{std::move(name), std::monostate{}, user};
            if (analysis)
                job.news = std::move(*analysis);
            writer_->submit(std::move(job));
        });
    return {};
}

Status Delivery::attach(EventLoop &loop) {
    auto look = loop.timer([this] { on_overdue(); });
    if (!look)
        return fail(look.error());
    search_timer_ = *look;
    auto again = loop.timer([this] { try_again(); });
    if (!again)
        return fail(again.error());
    again_timer_ = *again;
    report_late();
    if (auto told = loop.on_readable(reporter_->fd(), [this] { on_told(); }); !told)
        return told;
    if (auto found = loop.on_readable(cores_->fd(), [this] { on_cores(); }); !found)
        return found;
    if (auto found = loop.on_readable(words_->fd(), [this] { on_words(); }); !found)
        return found;
    return loop.on_readable(writer_->fd(), [this] { on_written(); });
}

void Delivery::take(Assembly assembly) {
    const auto &event = assembly.input.process.event;
    const auto &clocks = assembly.input.clocks;
    const capture::WallTime time = clocks.wall_of(capture::MonotonicTime{event.h.t_ns});
    if (!assembly.input.dump.sent && !keep(assembly))
        return;
    assembly.input.gap = gap_;
    WriteJob job;
    job.name = capture::bundle_name(time, assembly.rule->name, assembly.facts.comm, event.h.tgid, short_id());
    job.core = first_look_at_core({}, assembly.input);
    job.redact = config_.privacy.redact;
    WordsPlan words = plan_words(job.name, assembly.input, assembly.facts, config_.capture.journal_lines);
    job.last_words = std::move(words.now);
    if (words.wanted)
        words_wanted_.insert_or_assign(job.name, std::move(*words.wanted));
    if (job.core.pending) {
        WantedCore wanted;
        wanted.bundle = job.name;
        wanted.input.process.event = event;
        wanted.input.dump = assembly.input.dump;
        wanted.input.clocks = clocks;
        wanted.exe = assembly.facts.exe;
        wanted.auxv = capture::auxiliary_vector(assembly.collected, event);
        wanted.give_up_ns = clocks.monotonic.ns + static_cast<std::uint64_t>(config_.capture.core_wait.count());
        core_wanted_.insert_or_assign(job.name, std::move(wanted));
    }
    const std::string name = job.name;
    job.incident = std::move(assembly);
    if (!writer_->submit(std::move(job)))
        lost(name);
}

void Delivery::lost(const std::string &name) {
    ++counters_.failed;
    ++counters_.failed_because["too many were waiting to be written"];
    core_wanted_.erase(name);
    words_wanted_.erase(name);
    spdlog::error("incident {} is lost: {} incidents wait to be written, and {} MiB is the most that may", name,
                  writer_->pending(), Writer::queue_limit >> 20);
}

// The storm policy: of many similar incidents some are kept whole, some light, and the rest are only counted.
bool Delivery::keep(Assembly &assembly) {
    auto &input = assembly.input;
    const std::string rule = input.rule.name + " ";
    const auto answer = storm_.judge(rule + capture::incident_signature(input), rule + capture::incident_kind(input),
                                     assembly.facts, input.process.event.h.t_ns);
    input.similar = answer.similar;
    input.similar_counted = answer.counted_before;
    if (answer.keep == rules::Keep::Count) {
        ++counters_.counted;
        spdlog::info("only counted for pid {} ({}): the {}th of {} within {} s", input.process.event.h.tgid,
                     assembly.facts.comm, answer.similar, answer.signature,
                     std::chrono::duration_cast<std::chrono::seconds>(config_.storm.window).count());
        return false;
    }
    if (answer.keep == rules::Keep::Light) {
        make_light(assembly);
    } else if (writer_->crowded(rules::user_of(assembly.facts))) {
        make_light(assembly);
        input.losses.push_back({"files and other threads' stacks",
                                fmt::format("kept light: {} incidents waited to be written", writer_->pending()), 1});
    }
    return true;
}

void Delivery::on_written() {
    for (auto &result : writer_->take_results()) {
        counters_.removed += result.removed;
        if (result.no_room) {
            lost(result.name);
            continue;
        }
        if (!result.error.empty() && !result.reported)
            spdlog::error("incident {}: {}", result.name, result.error);
        if (result.reported) {
            on_reported(result);
            continue;
        }
        if (result.news != News::None) {
            on_amended(result);
            continue;
        }
        on_committed(result);
    }
}

void Delivery::on_committed(const WriteResult &result) {
    auto wanted = core_wanted_.extract(result.name);
    auto words = words_wanted_.extract(result.name);
    if (!result.error.empty() && !incidents_.bundle(result.name)) {
        ++counters_.failed;
        ++counters_.failed_because[result.error_code ? std::generic_category().message(result.error_code)
                                                     : "see the journal"];
        return;
    }
    ++counters_.committed;
    auto &[awaited, user] = unreported_[result.name];
    user = result.user.value_or(0);
    if (!result.light && analyst_ && analyst_->submit(result.name, user))
        awaited.insert(Awaited::Analysis);
    spdlog::info("incident {}: {} (committed {:.1f} ms after the trigger, {:.1f} ms of writing)", result.name,
                 result.summary, static_cast<double>(result.since_trigger_ns) / 1e6,
                 static_cast<double>(result.took_ns) / 1e6);
    if (!wanted.empty() && cores_->follow(std::move(wanted.mapped()))) {
        look_for_overdue();
        awaited.insert(Awaited::Core);
    }
    if (!words.empty()) {
        awaited.insert(Awaited::Past);
        follow_words(std::move(words.mapped()));
    }
    no_longer_awaits(result.name, Awaited::Nothing);
}

void Delivery::on_reported(WriteResult &result) {
    if (result.gone) {
        mark_reported(result.name);
        return;
    }
    const auto [untold, first] = untold_.try_emplace(result.name);
    untold->second.user = result.user.value_or(0);
    if (first)
        hook_->start(result.name, result.user, clock_ns(CLOCK_MONOTONIC));
    if (!result.error.empty())
        tell_again(result.name, result.error);
    else if (!reporter_->submit(result.name, std::move(result.entry)))
        tell_again(result.name, "too many wait for the journal");
}

void Delivery::on_told() {
    for (const auto &told : reporter_->take_told())
        if (told.sent)
            mark_reported(told.name);
        else
            tell_again(told.name, told.sent.error().what);
}

void Delivery::tell_again(const std::string &bundle, const std::string &why) {
    Untold &untold = untold_[bundle];
    if (untold.gap_ns == 0)
        spdlog::error("incident {}: {}; it is tried again, until then the journal does not tell of it", bundle, why);
    untold.gap_ns = std::clamp(untold.gap_ns * 2, again_ns, tell_again_last_ns);
    untold.due_ns = clock_ns(CLOCK_MONOTONIC) + untold.gap_ns;
    again_timer_.arm_in(again_ns);
}

void Delivery::mark_reported(const std::string &bundle) {
    untold_.erase(bundle);
    const auto marked = incidents_.set_reported(bundle, true);
    if (marked) {
        still_marked_.erase(bundle);
        return;
    }
    if (still_marked_.insert(bundle).second)
        spdlog::error("{}: is tried again; until then the next start would tell of it a second time",
                      marked.error().what);
    again_timer_.arm_in(again_ns);
}

void Delivery::try_again() {
    for (const std::string &bundle : std::set(still_marked_))
        mark_reported(bundle);
    const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
    bool more = false;
    for (auto &[bundle, untold] : untold_) {
        more |= untold.due_ns != 0;
        if (untold.due_ns == 0 || untold.due_ns > now)
            continue;
        untold.due_ns = 0; // under way
        writer_->submit(ReportJob{bundle, untold.user});
    }
    if (more)
        again_timer_.arm_in(again_ns);
}

void Delivery::drain(const std::function<void()> &alive) {
    on_written();
    for (std::size_t before = 0, left; (left = writer_->pending()) != 0; before = left, on_written()) {
        if (left != before)
            alive();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

void Delivery::finish(const std::function<void()> &alive) {
    drain(alive);
    finish_words(alive);
    drain(alive);
    for (const auto &[bundle, unreported] : std::exchange(unreported_, {}))
        writer_->submit(ReportJob{bundle, unreported.user});
    drain(alive);
    reporter_->hurry();
    const auto until = std::chrono::steady_clock::now() + journal_patience;
    for (; reporter_->pending() != 0 && std::chrono::steady_clock::now() < until; on_told())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const std::string &bundle : std::set(still_marked_))
        mark_reported(bundle);
    hook_->finish(hook_patience);
}

void Delivery::add_status(nlohmann::ordered_json &status) const {
    status["hook"] = nullptr;
    if (const HookCounters hook = hook_->counters(); hook_->on())
        status["hook"] = {{"unit", hook_->unit()},
                          {"started", hook.started},
                          {"failed", hook.failed},
                          {"suppressed", hook.suppressed}};
    status["untold"] = untold_.size();
    const AnalystCounters analyses = analyst_->counters();
    status["analyses"] = {{"done", analyses.done},
                          {"pending", analyst_->pending()},
                          {"failed", analyses.failed},
                          {"passed_over", analyses.passed_over}};
    constexpr std::size_t signatures_shown = 32;
    auto &signatures = status["signatures"] = nlohmann::ordered_json::array();
    for (const auto &line : storm_.lines(signatures_shown))
        signatures.push_back({{"signature", line.signature},
                              {"seen", line.seen},
                              {"full", line.full},
                              {"light", line.light},
                              {"counted", line.counted}});
}

} // namespace incident::daemon
