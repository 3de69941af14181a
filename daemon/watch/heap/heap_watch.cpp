#include "daemon/watch/heap/heap_watch.h"

#include "capture/os/proc_stat.h"
#include "capture/os/process_dir.h"
#include "daemon/os/clocks.h"
#include "daemon/watch/heap/heap_room.h"
#include "daemon/watch/heap/heap_snapshot.h"
#include "daemon/watch/running.h"
#include "rules/files/heap_cost.h"
#include "rules/model/match.h"
#include "rules/model/user.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

namespace incident::daemon {

namespace {

constexpr std::uint64_t heap_millisecond = 1'000'000;
// A program's libraries are mapped within milliseconds of its start, on a busy machine within seconds; others whenever
// it likes.  In milliseconds from look to look: until a function is found, and then.
constexpr unsigned first_looks[] = {1, 1, 2, 4, 8, 16, 32, 64, 128}, first_then = 250, first_most = 60;
constexpr unsigned later_looks[] = {100, 1000, 10'000}, later_then = 60'000;

// found: since that many looks, 0: not yet.
std::uint64_t until_next_look(unsigned attempt, unsigned found) {
    const unsigned ms = found ? (found <= std::size(later_looks) ? later_looks[found - 1] : later_then)
                        : attempt < std::size(first_looks) ? first_looks[attempt]
                        : attempt < first_most             ? first_then
                                                           : later_then;
    return ms * heap_millisecond;
}

} // namespace

HeapWatch::HeapWatch(const WatchContext &context, const rules::Config::Heap &config)
    : Watch(context), config_(config), cache_(UprobeAbilities::here()), worker_([this] { work(); }) {
    for (unsigned slot = HEAP_PROCESSES; slot-- > 0;)
        slots_->free.push_back(slot);
}

HeapWatch::~HeapWatch() {
    {
        const std::lock_guard lock(mutex_);
        ending_ = true;
    }
    more_.notify_one();
    worker_.join();
    for (auto &[pid, known] : known_)
        retiring_.push_back(known.process);
    for (const auto &process : retiring_)
        if (detacher_)
            process->retire(*detacher_);
    known_.clear();
    retiring_.clear();
    detacher_.reset();
}

// The closest that any rule about the process asks for; rule: whose wish it is.
HeapWish HeapWatch::wish_for(const rules::ProcessFacts &process, std::string &rule) const {
    HeapWish wish;
    wish.window_ns = static_cast<std::uint64_t>(config_.window.count());
    for (const auto &each : context_.rules.rules()) {
        if (!each.enabled || !rules::mismatch(each.match, process).empty())
            continue;
        if (each.context.allocations > wish.level) {
            wish.level = each.context.allocations;
            rule = each.name;
        }
        // what has grown within a rule's time is asked of the same time
        if (each.context.allocations != rules::Allocations::Pages)
            for (const auto &condition : each.conditions)
                if (const auto *memory = std::get_if<rules::MemoryCondition>(&condition.what); memory && memory->growth)
                    wish.window_ns = std::max(wish.window_ns, static_cast<std::uint64_t>(memory->within.count()));
    }
    wish.sizes = {config_.live, config_.stacks, wish.level == rules::Allocations::History ? config_.history : 0};
    return wish;
}

void HeapWatch::apply(std::uint64_t) {
    const bool wanted = std::ranges::any_of(context_.rules.rules(), [](const rules::Rule &rule) {
        return rule.enabled && rule.context.allocations != rules::Allocations::Pages;
    });
    if (wanted && !kernel_) {
        auto kernel = HeapKernel::load(context_.recorder.attacher());
        unavailable_ = kernel ? "" : kernel.error().what;
        if (kernel) {
            kernel_ = std::move(*kernel);
            detacher_.emplace();
            const std::lock_guard lock(mutex_);
            prices_wanted_ = true;
            more_.notify_one();
        } else {
            spdlog::error("heaps cannot be recorded: {}", unavailable_);
        }
    }
    if (!wanted) {
        for (auto &[pid, known] : known_)
            let_go(known);
        known_.clear();
        return;
    }
    find_running();
}

void HeapWatch::find_running() {
    each_running(context_.os, context_.recorder, [this](const RunningProcess &running) {
        const auto &facts = context_.facts.of(running.process, running.entry, running.comm);
        record_from_now(facts, running.entry ? running.entry->exec_ns : 0);
    });
}

void HeapWatch::let_go(Known &known) {
    memory_ -= known.bytes;
    known.process->end();
    {
        const std::lock_guard lock(mutex_);
        retiring_.push_back(known.process);
    }
    more_.notify_one();
}

std::unique_ptr<HeapSlot> HeapWatch::take_slot() {
    const std::lock_guard lock(slots_->mutex);
    if (slots_->free.empty())
        return nullptr;
    const unsigned number = slots_->free.back();
    slots_->free.pop_back();
    return std::make_unique<HeapSlot>(*kernel_, number, [slots = slots_](unsigned free) {
        const std::lock_guard given(slots->mutex);
        slots->free.push_back(free);
    });
}

std::shared_ptr<HeapProcess> HeapWatch::record(const rules::ProcessFacts &process, std::uint64_t exec_ns,
                                               const HeapWish &wish, std::uint64_t bytes, std::uint32_t user) {
    const auto refused = [&](std::string why) {
        spdlog::warn("the heap of pid {} ({}) is not recorded: {}", process.pid, process.comm, why);
        return std::make_shared<HeapProcess>(process_of(process), exec_ns, wish, nullptr, std::nullopt, std::move(why));
    };
    if (!kernel_)
        return refused(unavailable_);
    if (!make_room(user, bytes))
        return refused(fmt::format("[heap] memory = {} MiB is taken: each process may take {} MiB",
                                   config_.memory >> 20, (bytes + (1u << 20) - 1) >> 20));
    auto slot = take_slot();
    if (!slot)
        return refused(fmt::format("{} heaps are recorded already", HEAP_PROCESSES));
    auto maps = kernel_->make_maps(wish.sizes);
    if (!maps)
        return refused(maps.error().what);
    bpf::heap_account settings{};
    settings.epoch_shift = epoch_shift(wish.window_ns);
    settings.history_mask = wish.sizes.history ? wish.sizes.history - 1 : ~0ull;
    if (auto begun = kernel_->begin(slot->number(), settings, *maps); !begun)
        return refused(begun.error().what);
    auto recorded =
        std::make_shared<HeapProcess>(process_of(process), exec_ns, wish, std::move(slot), std::move(*maps), "");
    {
        const std::lock_guard lock(mutex_);
        looks_.push_back({.due_ns = clock_ns(CLOCK_MONOTONIC), .process = recorded});
    }
    more_.notify_one();
    return recorded;
}

// For the process of a user who has less than others.
bool HeapWatch::make_room(std::uint32_t user, std::uint64_t bytes) {
    std::vector<HeldHeap> held;
    for (const auto &[pid, known] : known_)
        if (known.bytes != 0)
            held.push_back({pid, known.user, known.since, known.bytes});
    const auto give_way = heaps_that_give_way(std::move(held), config_.memory - memory_, user, bytes);
    if (!give_way)
        return false;
    for (const std::uint32_t pid : *give_way) {
        Known &known = known_.at(pid);
        spdlog::warn(
            "the heap of pid {} ({}) is not recorded any more: [heap] memory = {} MiB is used up, most of it by "
            "processes of its user, and another user's needs some",
            pid, known.comm, config_.memory >> 20);
        stop_recording(known, "[heap] memory is used up, and another user's process had to have some of it");
    }
    return true;
}

void HeapWatch::started(const rules::ProcessFacts &process) {
    const auto entry = context_.recorder.process(process.pid);
    if (entry ? process_of(*entry).same_to_a_tick(process_of(process)) : lives(process_of(process)))
        record_from_now(process, entry ? entry->exec_ns : 0);
}

void HeapWatch::record_from_now(const rules::ProcessFacts &process, std::uint64_t exec_ns) {
    std::string rule;
    const HeapWish wish = wish_for(process, rule);
    const auto found = known_.find(process.pid);
    if (found != known_.end()) {
        const auto &known = *found->second.process;
        if (wish.level != rules::Allocations::Pages && known.process().same_to_a_tick(process_of(process)) &&
            known.exec_ns() == exec_ns && known.wish() == wish && (known.recorded() || !kernel_ || found->second.held))
            return;
        let_go(found->second);
        known_.erase(found);
    }
    if (wish.level == rules::Allocations::Pages)
        return;
    Known known;
    known.comm = process.comm;
    known.rule = std::move(rule);
    known.user = rules::user_of(process);
    begin(known, process, exec_ns, wish);
    obey_limit(known);
    known_.emplace(process.pid, std::move(known));
}

void HeapWatch::begin(Known &known, const rules::ProcessFacts &process, std::uint64_t exec_ns, const HeapWish &wish) {
    const std::uint64_t bytes = rules::heap_bytes(config_, wish.level);
    known.held = false;
    known.since = ++begun_;
    known.process = record(process, exec_ns, wish, bytes, known.user);
    known.bytes = known.process->recorded() ? bytes : 0;
    memory_ += known.bytes;
}

// It stays known, with nothing of it recorded.
void HeapWatch::stop_recording(Known &known, const std::string &why) {
    const auto before = known.process;
    let_go(known);
    known.bytes = 0;
    known.process =
        std::make_shared<HeapProcess>(before->process(), before->exec_ns(), before->wish(), nullptr, std::nullopt, why);
}

// Until the next limits say otherwise.
void HeapWatch::hold(Known &known, const std::string &why) {
    stop_recording(known, why);
    known.held = true;
    known.process->limit(rules::Allocations::Pages, why, 0);
}

void HeapWatch::obey_limit(Known &known) {
    const auto limit = limits_.find(known.process->pid());
    const bool limited = limit != limits_.end();
    if (limited && limit->second.level == rules::Allocations::Pages) {
        if (known.process->recorded())
            hold(known, limit->second.why);
        return;
    }
    if (known.held) {
        const auto before = known.process;
        rules::ProcessFacts facts;
        facts.pid = before->process().pid;
        facts.start_boot_ns = before->process().start.ns;
        facts.comm = known.comm;
        begin(known, facts, before->exec_ns(), before->wish());
    }
    const auto asked = known.process->wish().level;
    known.process->limit(limited ? std::min(asked, limit->second.level) : asked, limited ? limit->second.why : "",
                         clock_ns(CLOCK_MONOTONIC));
}

std::vector<HeapWatch::Load> HeapWatch::loads() const {
    std::vector<Load> loads;
    for (const auto &[pid, known] : known_)
        if (known.process->recorded() || known.held)
            loads.push_back({pid, known.comm, known.process->wish().level, known.process->load()});
    return loads;
}

bool HeapWatch::tend(std::uint64_t) {
    for (auto it = known_.begin(); it != known_.end();) {
        Known &known = it->second;
        if (lives(known.process->process())) {
            ++it;
            continue;
        }
        let_go(known);
        it = known_.erase(it);
    }
    return false;
}

// As far as the recorder knows; of one it has not seen yet, or no longer watches, what /proc says.
bool HeapWatch::lives(const capture::ProcessRef &process) const {
    const auto entry = context_.recorder.process(process.pid);
    if (entry && process_of(*entry).same_to_a_tick(process))
        return !entry->gone_ns;
    const auto dir = capture::ProcessDir::open(context_.os, process.pid);
    const auto stat = dir ? dir->stat() : Result<capture::ProcStat>(fail(dir.error()));
    return stat && process.is(*stat);
}

// A process that dies makes no more calls, so all is read later; of one that lives on the account is copied now.
void HeapWatch::add_context(const FiredIncident &incident) const {
    const auto &event = incident.input.process.event;
    const auto found = known_.find(event.h.tgid);
    if (found == known_.end() || !found->second.process->process().same_to_a_tick(process_of(event.h)))
        return;
    std::shared_ptr<const HeapProcess> process = found->second.process;
    std::shared_ptr<HeapProcess::Copy> copy;
    if (!event.fatal)
        copy = std::make_shared<HeapProcess::Copy>(process->copy(clock_ns(CLOCK_MONOTONIC)));
    incident.late.push_back([process, copy, price = price(process->wish().level)](capture::IncidentInput &input) {
        auto &heap = input.process.heap.emplace(process->snapshot(copy.get(), clock_ns(CLOCK_MONOTONIC)));
        if (price) {
            const std::uint64_t frees = heap.total.frees + heap.unknown_frees;
            heap.calls = heap.total.allocations + frees;
            heap.calls_ns = heap.total.allocations * price->allocation_ns + frees * price->free_ns;
        }
    });
}

std::optional<HeapPrice> HeapWatch::price(rules::Allocations level) const {
    const std::lock_guard lock(mutex_);
    return level == rules::Allocations::History ? history_price_
           : level == rules::Allocations::Sizes ? sizes_price_
                                                : std::nullopt;
}

void HeapWatch::describe(ConditionStates &states) const {
    for (const auto &[pid, known] : known_) {
        const auto heap = known.process->state();
        RuleState &state = states[known.rule + ":0"];
        if (heap.reason.empty() || state.state != "active")
            continue;
        state.state = "degraded";
        state.reason =
            heap.limited ? fmt::format("the heap of pid {} ({}) is recorded at level \"{}\": {}", pid, known.comm,
                                       heap.level, heap.reason)
                         : fmt::format("allocations of pid {} ({}) are not recorded: {}", pid, known.comm, heap.reason);
    }
}

// Where it fails nobody is told a price.
void HeapWatch::measure_prices() {
    for (const bool history : {false, true}) {
        auto slot = take_slot();
        if (!slot)
            return;
        const auto measured = measure_heap_price(*kernel_, std::move(slot), history, *detacher_);
        if (!measured) {
            spdlog::warn("what recording a heap costs here could not be measured: {}", measured.error().what);
            return;
        }
        spdlog::info("recording a heap at level \"{}\" adds {} ns to an allocation and {} ns to a free on this machine",
                     history ? "history" : "sizes", measured->allocation_ns, measured->free_ns);
        const std::lock_guard lock(mutex_);
        (history ? history_price_ : sizes_price_) = *measured;
    }
}

void HeapWatch::work() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
        if (!retiring_.empty()) {
            const auto retiring = std::exchange(retiring_, {});
            lock.unlock();
            for (const auto &process : retiring)
                if (detacher_) // else none was ever probed
                    process->retire(*detacher_);
            lock.lock();
            continue;
        }
        const auto next = std::ranges::min_element(looks_, {}, &Look::due_ns);
        // Between looks: whoever has just started is not kept waiting.
        if (prices_wanted_ && (next == looks_.end() || (next->found || next->attempt >= std::size(first_looks)))) {
            prices_wanted_ = false;
            lock.unlock();
            measure_prices();
            lock.lock();
            continue;
        }
        const std::uint64_t now = clock_ns(CLOCK_MONOTONIC);
        if (next == looks_.end()) {
            more_.wait(lock);
            continue;
        }
        if (next->due_ns > now) {
            more_.wait_for(lock, std::chrono::nanoseconds(next->due_ns - now));
            continue;
        }
        Look look = std::move(*next);
        looks_.erase(next);
        lock.unlock();
        const auto process = look.process.lock();
        if (process) {
            if (process->look(context_.os, cache_))
                ++look.found;
            look.due_ns = clock_ns(CLOCK_MONOTONIC) + until_next_look(look.attempt++, look.found);
        }
        lock.lock();
        if (process && !ending_)
            looks_.push_back(std::move(look));
    }
}

} // namespace incident::daemon
