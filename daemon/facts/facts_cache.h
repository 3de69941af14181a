// Remembers the facts of processes that trigger again and again, so that /proc is read once.  Facts hold as long as the
// kernel side names the same executable, cgroup and uid.
#pragma once

#include "daemon/facts/facts.h"
#include "rules/engine/keyed_memory.h"

#include <optional>

namespace incident::daemon {

class FactsCache {
public:
    explicit FactsCache(capture::OsRoots os) : os_(std::move(os)) {}

    // The facts of a process that has just triggered.  A fact that /proc no longer tells stays empty.
    const rules::ProcessFacts &of(const bpf::trigger_head &trigger);
    // Remembers the facts of processes with this key, as read when the recorder asked.  They serve for processes that
    // are gone before /proc can be read.
    void learn(const bpf::watch_key &key, const rules::ProcessFacts &facts);
    // The facts of a process of which only the id is known.  entry: what the recorder has of it, which shows each exec
    // and the key it was last decided by.  nullopt: the process has ended, and what was known of it still holds.
    const rules::ProcessFacts &of(const capture::ProcessRef &process, const std::optional<bpf::process_entry> &entry,
                                  const std::string &comm);

private:
    static constexpr std::size_t most = 8192; // of each of the two, which users share
    struct Entry {
        capture::ProcessRef process;
        bpf::watch_key key{};
        std::uint32_t execs = 0;
        bpf::watch_key decided{}; // process_entry.key
        rules::ProcessFacts facts;
    };
    Entry &entry(std::uint32_t tgid, std::uint32_t uid);
    void take_learnt(Entry &known, const bpf::watch_key &key);
    rules::ProcessFacts read(const capture::ProcessRef &process, const capture::Program &program,
                             const std::string &comm, std::uint32_t uid) const;

    capture::OsRoots os_;
    rules::KeyedMemory<Entry, most> entries_;              // by the bytes of the tgid
    rules::KeyedMemory<rules::ProcessFacts, most> learnt_; // by the bytes of a watch_key
};

} // namespace incident::daemon
