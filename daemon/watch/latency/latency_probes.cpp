#include "daemon/watch/latency/latency_probes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace incident::daemon {

namespace {

std::string key_of(const WantedProbe &wanted) {
    return wanted.enter.text + '\n' + (wanted.leave ? wanted.leave->text : "");
}

} // namespace

LatencyProbes::LatencyProbes(LatencyKernel &kernel, const capture::OsRoots &os, UprobeAbilities abilities,
                             DebugRoots debug)
    : kernel_(kernel), tools_{kernel, detacher_, os, abilities, std::move(debug), std::make_shared<Sonames>()},
      exits_(tools_, ExitProbes::Follows::Exits), loads_(tools_, ExitProbes::Follows::Loads), scanner_(os),
      own_namespace_(mount_namespace(os, "self")) {}

LatencyProbes::~LatencyProbes() {
    for (auto &probe : probes_)
        take_off(*probe);
}

LatencyProbes::Probe *LatencyProbes::probe_of(std::uint32_t index) {
    const auto found = std::ranges::find_if(probes_, [&](const auto &probe) { return probe->index == index; });
    return found == probes_.end() ? nullptr : found->get();
}

// With a serial above the index: a frame or a late event of a probe that is gone must not be taken for a new one's.
std::optional<std::uint32_t> LatencyProbes::free_index() {
    for (std::uint32_t tried = 0; tried < PROBES_MAX; ++tried) {
        const std::uint32_t index = next_index_;
        next_index_ = (next_index_ + 1) % PROBES_MAX;
        if (std::ranges::any_of(probes_, [&](const auto &probe) { return PROBE_INDEX(probe->index) == index; }))
            continue;
        const std::uint32_t id = next_serial_ * PROBES_MAX + index;
        next_serial_ = (next_serial_ + 1) % (PROBE_SERIALS - 1); // the last has NO_PROBE and EXIT_PROBE in it
        return id;
    }
    return std::nullopt;
}

LatencyProbes::Probe LatencyProbes::make(const WantedProbe &wanted, const std::string &key) {
    Probe probe;
    probe.index = *free_index();
    probe.key = key;
    probe.held = held_.contains(key);
    probe.base = kernel_.probe_count(probe.index);
    scanner_.forget_doubts(probe.index);
    if (wanted.leave) {
        probe.ends.emplace_back(*wanted.leave, ProbeEnd::Kind::Leave, probe.index); // first, as within an end
        probe.ends.emplace_back(wanted.enter, ProbeEnd::Kind::Enter, probe.index);
    } else {
        probe.ends.emplace_back(wanted.enter, ProbeEnd::Kind::Function, probe.index);
    }
    return probe;
}

void LatencyProbes::set(std::vector<WantedProbe> wanted, std::uint64_t now) {
    wanted_ = std::move(wanted);
    for (auto &probe : probes_) {
        probe->users.clear();
        probe->everyone = false;
        probe->max_rate = ~0u;
    }
    std::vector<std::unique_ptr<Probe>> before = std::move(probes_);
    probes_.clear();
    for (auto &old : before) // their indices stay taken
        if (std::ranges::any_of(wanted_, [&](const WantedProbe &w) { return key_of(w) == old->key; }))
            probes_.push_back(std::move(old));
        else
            take_off(*old);
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
        const std::string key = key_of(wanted_[i]);
        auto found = std::ranges::find_if(probes_, [&](const auto &probe) { return probe->key == key; });
        if (found == probes_.end()) {
            if (probes_.size() >= PROBES_MAX)
                continue; // without a probe: reported unavailable
            probes_.push_back(std::make_unique<Probe>(make(wanted_[i], key)));
            found = std::prev(probes_.end());
            (*found)->max_rate = ~0u;
        }
        auto &probe = **found;
        probe.users.push_back(i);
        probe.everyone |= wanted_[i].everyone;
        probe.max_rate = std::min(probe.max_rate, wanted_[i].max_rate);
    }
    std::vector<Looking> looking;
    for (auto &probe : probes_) {
        if (probe->everywhere && !probe->everyone && probe->processes.size() <= processes_max) {
            take_off(*probe);
            probe->everywhere = false;
        }
        for (auto &end : probe->ends)
            end.forget_refusals();
        probe->silent_until_ns = {};
        looking.push_back({probe.get(), true, std::nullopt});
    }
    look(looking, now);
    for (auto &probe : probes_) {
        attach(*probe, now);
        tell_kernel(*probe);
    }
    looked_.clear();
    lookups_.clear();
    exit_lookups_.clear();
    follow_exits();
    tell_scanner();
    next_tick_ = probes_.empty() ? OverdueScanner::never : std::min(next_tick_, now + tick_ns);
}

void LatencyProbes::process_seen(std::uint32_t pid, const std::function<bool(const WantedProbe &)> &matches,
                                 std::uint64_t now) {
    std::vector<Looking> looking;
    std::vector<Probe *> wanting;
    bool exits = false; // somebody tells of calls that still run
    for (auto &probe : probes_) {
        const bool wants = probe->everyone || std::ranges::any_of(probe->users, [&](std::size_t user) {
                               return wanted_[user].everyone || matches(wanted_[user]);
                           });
        if (!wants) {
            if (probe->processes.erase(pid)) {
                for (auto &end : probe->ends)
                    end.detach(pid, tools_);
                probe->forsaken.insert(pid);
            }
            continue;
        }
        if (!probe->everyone)
            probe->processes.insert(pid);
        if (probe->forsaken.erase(pid)) { // what it was in then may have returned unseen
            probe->since_ns = now;
            tell_kernel(*probe);
            tell_scanner();
        }
        wanting.push_back(probe.get());
        const std::uint64_t space = mount_namespace(tools_.os, std::to_string(pid));
        const bool like_others = probe->everywhere && looked_.contains({space, executable_of(*probe, pid)});
        if (like_others)
            continue;
        looking.push_back({probe.get(), true, pid}); // on the host too: an exec is when a deploy shows
        exits |= follows_exits(*probe);
    }
    look(looking, now);
    if (exits || (!wanting.empty() && !with_return_probes().empty()))
        look_for_exits(pid, now);
    for (Probe *probe : wanting)
        attach(*probe, now);
    look_for_switches(pid, now); // behind that: from then on its loader tells what it maps
}

void LatencyProbes::process_gone(std::uint32_t pid) {
    for (auto &probe : probes_) {
        probe->forsaken.erase(pid);
        if (probe->processes.erase(pid))
            for (auto &end : probe->ends)
                end.detach(pid, tools_);
    }
    follow_exits();
    std::erase_if(exit_lookups_, [&](const ExitLookup &lookup) { return lookup.pid == pid; });
    std::erase_if(lookups_, [&](const Lookup &lookup) { return lookup.pid == pid; });
}

void LatencyProbes::attach(Probe &probe, std::uint64_t now) {
    if (probe.off_until_ns || probe.held)
        return;
    const bool attached_before = std::ranges::all_of(probe.ends, &ProbeEnd::attached);
    if (!attached_before) {
        probe.since_ns = now;
        tell_kernel(probe);
    }
    // Never back from everywhere, but by a reload: numbers that swing would cost more.
    probe.everywhere |= probe.everyone || probe.processes.size() > processes_max;
    probe.refused.clear();
    // before the ends, so that whatever leaves a call that is seen to begin is seen
    if (follows_exits(probe) ||
        std::ranges::any_of(probe.ends, [](const ProbeEnd &end) { return !end.with_return_probes().empty(); }))
        follow_exits();
    for (auto &end : probe.ends) {
        if (probe.everywhere) {
            if (const auto done = end.attach_everywhere(tools_); !done)
                probe.refused = done.error().what;
            continue;
        }
        for (const auto pid : probe.processes)
            if (const auto done = end.attach(pid, tools_); !done && done.error().code != ESRCH)
                probe.refused = done.error().what;
    }
    if (!attached_before && std::ranges::all_of(probe.ends, &ProbeEnd::attached)) {
        probe.last = kernel_.probe_count(probe.index);
        probe.last_ns = now;
        probe.over = probe.under = 0;
        tell_scanner();
    }
}

void LatencyProbes::take_off(Probe &probe) {
    kernel_.set_probe(probe.index, {.threshold_ns = ~0ull, .id = probe.index});
    for (auto end = probe.ends.rbegin(); end != probe.ends.rend(); ++end) // the entering one first
        end->detach_all(tools_);
}

// A function called more often than its budget allows is let go, for the sake of the program.
void LatencyProbes::check_rate(Probe &probe, std::uint64_t now) {
    if (probe.held)
        return;
    if (probe.off_until_ns) {
        if (now < probe.off_until_ns)
            return;
        probe.off_until_ns = 0;
        attach(probe, now);
        return;
    }
    if (!std::ranges::any_of(probe.ends, &ProbeEnd::attached) || now <= probe.last_ns)
        return;
    const auto count = kernel_.probe_count(probe.index);
    const std::uint64_t calls = count.calls + count.unrecorded - probe.last.calls - probe.last.unrecorded;
    probe.rate =
        static_cast<std::uint64_t>(static_cast<double>(calls) * 1e9 / static_cast<double>(now - probe.last_ns));
    probe.last = count;
    probe.last_ns = now;
    probe.over = probe.rate > probe.max_rate ? probe.over + 1 : 0;
    probe.under = probe.over ? 0 : probe.under + 1;
    if (probe.over < ticks_over_rate && probe.rate / 10 <= probe.max_rate) {
        if (probe.off_since_ns && probe.under >= ticks_over_rate) {
            probe.off_since_ns = 0;
            spdlog::info("{} is attached again: {} calls a second, within max_rate = {}", name_of(probe), probe.rate,
                         probe.max_rate);
        }
        return;
    }
    probe.off_rate = probe.rate;
    probe.off_until_ns = now + retry_ns;
    take_off(probe);
    tell_scanner();
    if (!probe.off_since_ns) { // once, however often it is tried in vain
        probe.off_since_ns = now;
        spdlog::warn(
            "{} is detached: {} calls a second, above max_rate = {}; it is tried again every {} s, and told of "
            "when it stays",
            name_of(probe), probe.rate, probe.max_rate, retry_ns / 1'000'000'000);
    }
}

// With the rules that ask for it.
std::string LatencyProbes::name_of(const Probe &probe) const {
    std::set<std::string> rules;
    for (const auto user : probe.users)
        rules.insert(wanted_[user].rule);
    std::string name = probe.users.empty() ? probe.key : wanted_[probe.users.front()].enter.text;
    return fmt::format("probe {} of rule{} {}", name, rules.size() == 1 ? "" : "s", fmt::join(rules, ", "));
}

void LatencyProbes::hold(std::set<std::string> keys, std::uint64_t now) {
    held_ = std::move(keys);
    for (auto &probe : probes_) {
        const bool hold = held_.contains(probe->key);
        if (hold == probe->held)
            continue;
        probe->held = hold;
        probe->off_until_ns = probe->off_since_ns = 0; // who tries it again now decides about its rate anew
        if (hold)
            take_off(*probe);
        else
            attach(*probe, now);
    }
    tell_scanner();
}

void LatencyProbes::measure_traps() {
    if (probes_.empty() || std::exchange(traps_measured_, true))
        return;
    const auto measured = measure_trap_price(kernel_, detacher_);
    if (!measured) {
        spdlog::warn("what the kernel's traps at probes cost here could not be measured: {}", measured.error().what);
        return;
    }
    spdlog::info("on this machine a probe adds {} ns to a call, a return probe {} ns, one that is single-stepped {} ns",
                 measured->emulated_ns, measured->returned_ns, measured->stepped_ns);
    trap_price_ = *measured;
}

std::vector<LatencyProbes::Load> LatencyProbes::loads() const {
    std::vector<Load> loads;
    for (const auto &probe : probes_) {
        const bool attached = std::ranges::any_of(probe->ends, &ProbeEnd::attached);
        if (!attached && !probe->held)
            continue;
        const auto count = kernel_.probe_count(probe->index);
        CallTraps traps;
        for (const auto &end : probe->ends)
            traps = traps + end.traps();
        loads.push_back({probe->key, users(probe->index), attached, count.calls + count.unrecorded,
                         trap_price_ ? trap_price_->of(traps) : 0});
    }
    return loads;
}

void LatencyProbes::tick(std::uint64_t now) {
    check_exit_rate(now);
    std::vector<Looking> looking;
    looking.reserve(probes_.size());
    for (auto &probe : probes_)
        looking.push_back({probe.get(), true, std::nullopt});
    look(looking, now);
    for (auto &probe : probes_) {
        check_rate(*probe, now);
        attach(*probe, now);
    }
    next_tick_ = now + tick_ns;
}

std::uint64_t LatencyProbes::next_wake() const {
    std::uint64_t next = std::min(next_tick_, scanner_.next_scan());
    for (const auto &lookup : lookups_)
        next = std::min(next, lookup.due_ns);
    for (const auto &lookup : exit_lookups_)
        next = std::min(next, lookup.due_ns);
    return next;
}

void LatencyProbes::wake(std::uint64_t now, const std::function<void(const OverdueCall &)> &on_overdue) {
    if (scanner_.next_scan() <= now)
        scanner_.scan(kernel_, now, on_overdue, [this](const OverdueCall &call) { return doubt(call); });
    const auto exits_due =
        std::ranges::partition(exit_lookups_, [&](const ExitLookup &lookup) { return lookup.due_ns > now; });
    for (const auto &lookup : std::vector<ExitLookup>(exits_due.begin(), exits_due.end())) {
        exits_.look_in(lookup.pid);
        loads_.look_in(lookup.pid);
        look_for_switches(lookup.pid, now);
        if (lookup.attempt + 1 < look_again_ns.size())
            exit_lookups_.push_back({lookup.pid, now + look_again_ns[lookup.attempt + 1], lookup.attempt + 1});
    }
    std::erase_if(exit_lookups_, [&](const ExitLookup &lookup) { return lookup.due_ns <= now; });
    const auto due = std::ranges::partition(lookups_, [&](const Lookup &lookup) { return lookup.due_ns > now; });
    const std::vector<Lookup> now_due(due.begin(), due.end());
    lookups_.erase(due.begin(), due.end());
    std::vector<Looking> looking;
    for (const auto &lookup : now_due)
        if (Probe *probe = probe_of(lookup.probe); probe && (probe->everyone || probe->processes.contains(lookup.pid)))
            looking.push_back({probe, false, lookup.pid, lookup.attempt});
    look(looking, now);
    for (const auto &looked : looking)
        attach(*looked.probe, now);
    if (next_tick_ <= now)
        tick(now);
}

// What has no return to wait for must be seen to be left: calls told of while they run, and
// pairs, whose leave another call's enter would have to be told from.
bool LatencyProbes::follows_exits(const Probe &probe) const {
    if (probe.held || probe.off_until_ns || !std::ranges::all_of(probe.ends, &ProbeEnd::found) ||
        std::ranges::any_of(probe.ends, &ProbeEnd::keyed))
        return false;
    return probe.ends.size() > 1 || std::ranges::any_of(probe.users, [&](std::size_t user) {
               return wanted_[user].when == rules::When::Deadline;
           });
}

void LatencyProbes::follow_exits() {
    bool everywhere = false;
    std::set<std::uint32_t> processes;
    for (const auto &probe : probes_)
        if (follows_exits(*probe)) {
            everywhere |= probe->everywhere;
            processes.insert(probe->processes.begin(), probe->processes.end());
        }
    exits_.want(everywhere, std::move(processes));
    everywhere = false;
    processes.clear();
    for (const auto &probe : probes_)
        if (!probe->held && !probe->off_until_ns &&
            std::ranges::any_of(probe->ends, [](const ProbeEnd &end) { return !end.with_return_probes().empty(); })) {
            everywhere |= probe->everywhere;
            processes.insert(probe->processes.begin(), probe->processes.end());
        }
    loads_.want(everywhere, std::move(processes));
}

// A program that runs has mapped it all but for what it loads later; at its exec nothing but itself.
void LatencyProbes::look_for_exits(std::uint32_t pid, std::uint64_t now) {
    if (exit_lookups_.size() >= lookups_max ||
        std::ranges::any_of(exit_lookups_, [&](const ExitLookup &lookup) { return lookup.pid == pid; }))
        return;
    follow_exits();
    exits_.look_in(pid);
    loads_.look_in(pid);
    exit_lookups_.push_back({pid, now + look_again_ns[0], 0});
}

void LatencyProbes::check_exit_rate(std::uint64_t now) {
    if (exits_off_until_ns_) {
        if (now < exits_off_until_ns_)
            return;
        exits_off_until_ns_ = 0;
        exits_.turn(true);
    }
    const std::uint64_t exits = kernel_.probe_count(EXIT_PROBE).calls;
    if (exits_last_ns_ && now > exits_last_ns_) {
        const auto rate = static_cast<std::uint64_t>(static_cast<double>(exits - exits_last_) * 1e9 /
                                                     static_cast<double>(now - exits_last_ns_));
        if (rate > exits_max_rate) {
            exits_off_until_ns_ = now + retry_ns;
            exits_off_rate_ = rate;
            exits_.turn(false);
        }
    }
    exits_last_ = exits;
    exits_last_ns_ = now;
}

std::string LatencyProbes::doubt(const OverdueCall &call) {
    return exits_.doubt(call.thread.tgid, call.thread.tid, call.frame, !call.pair);
}

void LatencyProbes::tell_kernel(const Probe &probe) {
    // Also of deadlines: a call may be over before it is looked at.
    std::uint64_t threshold = ~0ull;
    for (const auto user : probe.users)
        threshold = std::min(threshold, wanted_[user].threshold_ns);
    // Where several conditions share the probe the kernel side cannot tell whose threshold was passed.
    const bool alone = probe.users.size() == 1 && wanted_[probe.users.front()].when == rules::When::Return;
    // Of which rules, always: what the threshold is measured by is theirs.
    std::uint64_t dump = 0;
    if (!probe.users.empty())
        dump = std::uint64_t{wanted_[probe.users.front()].generation} << 32 |
               (alone ? wanted_[probe.users.front()].dump_bit : 0);
    kernel_.set_probe(probe.index, {.threshold_ns = threshold,
                                    .capture_gap_ns = capture_gap_ns,
                                    .since_ns = probe.since_ns,
                                    .id = probe.index,
                                    .dump = dump});
}

void LatencyProbes::tell_scanner() {
    OverdueScanner::Thresholds thresholds;
    for (const auto &probe : probes_)
        if (!probe->off_until_ns && std::ranges::all_of(probe->ends, &ProbeEnd::attached))
            for (const auto user : probe->users)
                if (wanted_[user].when == rules::When::Deadline)
                    thresholds.emplace(probe->index,
                                       OverdueScanner::Watch{wanted_[user].threshold_ns, probe->since_ns});
    // two conditions with one threshold are one
    for (auto it = thresholds.begin(); it != thresholds.end();) {
        const auto same = std::find_if(thresholds.begin(), it, [&](const auto &other) {
            return other.first == it->first && other.second.threshold_ns == it->second.threshold_ns;
        });
        it = same == it ? std::next(it) : thresholds.erase(it);
    }
    scanner_.watch(std::move(thresholds));
}

} // namespace incident::daemon
