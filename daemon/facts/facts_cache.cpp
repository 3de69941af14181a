#include "daemon/facts/facts_cache.h"

#include "capture/os/proc_stat.h"
#include "rules/model/user.h"

#include <cstring>

namespace incident::daemon {

namespace {

template <typename T> std::string_view bytes_of(const T &key) {
    return {reinterpret_cast<const char *>(&key), sizeof(key)};
}

constexpr std::uint32_t no_user = ~0u; // chown(2): no user has it

std::uint32_t uid_in(const bpf::process_entry &entry) {
    return entry.key.exe_inode ? entry.key.uid : entry.uid;
}

bool same_key(const bpf::watch_key &a, const bpf::watch_key &b) {
    return std::memcmp(&a, &b, sizeof(a)) == 0;
}

} // namespace

FactsCache::Entry &FactsCache::entry(std::uint32_t tgid, std::uint32_t uid) {
    return entries_.at(bytes_of(tgid), rules::user_of(uid));
}

void FactsCache::learn(const bpf::watch_key &key, const rules::ProcessFacts &facts) {
    learnt_.at(bytes_of(key), rules::user_of(key.uid)) = facts;
    if (Entry &known = entry(facts.pid, key.uid); known.process != process_of(facts))
        known = {process_of(facts), key, 0, {}, facts};
}

rules::ProcessFacts FactsCache::read(const capture::ProcessRef &process, const capture::Program &program,
                                     const std::string &comm, std::uint32_t uid) const {
    rules::ProcessFacts facts;
    facts.pid = process.pid;
    facts.start_boot_ns = process.start.ns;
    facts.comm = comm;
    facts.uid = uid;
    if (process.pid == 0)
        return facts; // the idle task
    const auto live = capture::identify(os_, process.pid);
    if (!live || live->start_ticks != capture::start_ticks_of(process.start) || !program.may_be(live->program))
        return facts;
    facts.comm = live->comm;
    facts.exe = live->exe;
    facts.cgroup = live->cgroup;
    facts.unit = live->unit;
    facts.uid = live->uid;
    facts.real_uid = live->real_uid;
    return facts;
}

// Where the process has ended before it could be looked at: its like was, when it lived.
void FactsCache::take_learnt(Entry &known, const bpf::watch_key &key) {
    const auto *learnt = learnt_.find(bytes_of(key));
    if (!known.facts.exe.empty() || learnt == nullptr)
        return;
    const std::string comm = std::move(known.facts.comm);
    known.facts = *learnt;
    if (!key.cgroup_set) { // it is like it in what the key tells apart, which this is not
        known.facts.cgroup.clear();
        known.facts.unit.clear();
    }
    known.facts.pid = known.process.pid;
    known.facts.start_boot_ns = known.process.start.ns;
    known.facts.comm = comm;
    known.facts.real_uid.reset(); // the key does not tell it
}

const rules::ProcessFacts &FactsCache::of(const bpf::trigger_head &trigger) {
    Entry &known = entry(trigger.h.tgid, trigger.key.uid);
    const bool same = known.process == process_of(trigger.h);
    // Without an executable its memory is gone, and /proc says less than what was known of it.
    if (!same || (trigger.key.exe_inode && !same_key(known.key, trigger.key))) {
        known.process = process_of(trigger.h);
        known.key = trigger.key;
        known.execs = 0;
        known.facts = read(known.process, capture::program_of(trigger.h), text_of(trigger.comm), trigger.key.uid);
        take_learnt(known, trigger.key);
    }
    return known.facts;
}

const rules::ProcessFacts &FactsCache::of(const capture::ProcessRef &process,
                                          const std::optional<bpf::process_entry> &entry, const std::string &comm) {
    Entry &known = this->entry(process.pid, entry ? entry->uid : 0);
    const bool another = known.process != process || (entry && known.execs != entry->execs);
    // Without an executable nobody had to be asked about it, or has been yet.
    const bool changed =
        entry && entry->key.exe_inode &&
        (known.decided.exe_inode ? !same_key(known.decided, entry->key) : known.facts.uid != entry->key.uid);
    if (another || changed) {
        known.process = process;
        known.execs = entry ? entry->execs : 0;
        const std::uint32_t uid = process.pid == 0 ? 0 : entry ? uid_in(*entry) : no_user; // the idle task is root's
        known.facts = read(process, {}, comm, uid);
        if (entry && entry->key.exe_inode)
            take_learnt(known, entry->key);
    }
    known.decided = entry ? entry->key : known.decided;
    return known.facts;
}

} // namespace incident::daemon
