#include "daemon/watch/memory/memory_watch.h"

#include "daemon/os/clocks.h"
#include "rules/model/match.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace incident::daemon {

namespace {

constexpr std::uint64_t second = 1'000'000'000, least_interval = second / 10;

// Field 2 of /proc/PID/statm: resident pages, exact on every kernel (proc(5) warns of 6.2's
// batches, which statm sums up).
std::uint64_t resident_bytes(const capture::OsRoots &os, std::uint32_t tgid) {
    std::ifstream statm(os.proc + "/" + std::to_string(tgid) + "/statm");
    std::uint64_t size = 0, resident = 0;
    statm >> size >> resident;
    return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

bool is_memory(const rules::Condition &condition) {
    return std::holds_alternative<rules::MemoryCondition>(condition.what);
}

bool wanted_by(std::span<const rules::Rule> rules, const rules::ProcessFacts &process) {
    return std::ranges::any_of(rules, [&](const rules::Rule &rule) {
        return rule.enabled && std::ranges::any_of(rule.conditions, is_memory) &&
               rules::mismatch(rule.match, process).empty();
    });
}

} // namespace

void MemoryWatch::apply(std::uint64_t) {
    interval_ns_ = 0;
    for (const auto &rule : context_.rules.rules())
        for (const auto &condition : rule.conditions)
            if (const auto *memory = std::get_if<rules::MemoryCondition>(&condition.what); memory && rule.enabled) {
                // a growth is seen with a tenth of its time as error
                const auto within = static_cast<std::uint64_t>(memory->within.count());
                const std::uint64_t wanted = memory->growth ? std::clamp(within / 10, least_interval, second) : second;
                interval_ns_ = interval_ns_ ? std::min(interval_ns_, wanted) : wanted;
            }
    for (auto &[tgid, known] : known_)
        known.execs = ~0u; // whom the rules want may have changed
    if (interval_ns_ == 0)
        known_.clear();
}

// How much it has grown within the time that the rule looks back.
void MemoryWatch::add_context(const FiredIncident &incident) const {
    auto *memory = std::get_if<capture::MemoryTrigger>(&incident.input.trigger);
    const auto *wanted = incident.condition<rules::MemoryCondition>();
    if (!memory || !wanted || !wanted->growth)
        return;
    const std::uint64_t now = incident.input.process.event.h.t_ns,
                        from = now - std::min(now, static_cast<std::uint64_t>(wanted->within.count()));
    std::uint64_t least = memory->rss;
    for (const auto &[t_ns, bytes] : memory->samples)
        if (t_ns >= from)
            least = std::min(least, bytes);
    memory->growth = memory->rss - least;
}

std::uint64_t MemoryWatch::poll(std::uint64_t now_ns) {
    if (!interval_ns_)
        return never;
    const Recorder &recorder = context_.recorder;
    for (auto &[tgid, known] : known_)
        known.seen = false;
    for (const std::uint32_t tgid : recorder.processes()) {
        const auto entry = recorder.process(tgid);
        if (!entry || entry->death_ns)
            continue;
        Known &known = known_[tgid];
        known.seen = true;
        if (known.process != process_of(*entry))
            known = Known{.process = process_of(*entry), .execs = ~0u, .seen = true};
        const auto &process = context_.facts.of(known.process, entry, {});
        if (known.execs != entry->execs)
            known.samples.clear(); // another program: its memory is no growth of the old one's
        if (known.execs != entry->execs || known.uid != process.uid) {
            known.execs = entry->execs;
            known.uid = process.uid;
            known.wanted = wanted_by(context_.rules.rules(), process);
        }
        if (!known.wanted)
            continue;
        const std::uint64_t rss = resident_bytes(context_.os, tgid);
        if (rss == 0)
            continue; // gone
        known.samples.emplace_back(now_ns, rss);
        if (known.samples.size() > most_samples)
            known.samples.pop_front();
        Occurrence made;
        made.event = {now_ns, process, rules::MemoryEvent{rss}};
        capture::MemoryTrigger trigger{rss, 0, {known.samples.begin(), known.samples.end()}};
        made.trigger = std::move(trigger);
        made.subject.t_ns = now_ns;
        made.subject.tgid = made.subject.tid = tgid;
        made.subject.process_start_boot_ns = made.subject.thread_start_boot_ns = entry->start_boot_ns;
        made.comm = process.comm;
        context_.occur(std::move(made));
    }
    std::erase_if(known_, [](const auto &item) { return !item.second.seen; });
    return clock_ns(CLOCK_MONOTONIC) + interval_ns_; // not now_ns: samples of many processes take their time
}

} // namespace incident::daemon
