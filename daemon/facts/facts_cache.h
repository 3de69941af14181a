// Facts about processes that trigger again and again, read once from /proc: they hold as
// long as the kernel side names the same executable, cgroup and uid.
#pragma once

#include "daemon/facts/facts.h"

#include <optional>
#include <unordered_map>

namespace incident::daemon {

class FactsCache {
public:
    explicit FactsCache(capture::OsRoots os) : os_(std::move(os)) {}

    // Of a process that has just triggered; what /proc no longer tells stays empty.
    const rules::ProcessFacts &of(const bpf::trigger_head &trigger);
    // What such processes are, as found out when the recorder asked: for those gone before
    // /proc can be read.
    void learn(const bpf::watch_key &key, const rules::ProcessFacts &facts);
    // Of a process known by its id alone.  entry: the recorder's of it, which tells of each exec and of what it was
    // decided by last; none where it has ended (what was known of it then still holds).
    const rules::ProcessFacts &of(const capture::ProcessRef &process, const std::optional<bpf::process_entry> &entry,
                                  const std::string &comm);

private:
    static constexpr std::size_t most = 8192; // beyond it all are forgotten: a re-read costs microseconds
    struct Entry {
        capture::ProcessRef process;
        bpf::watch_key key{};
        std::uint32_t execs = 0;
        bpf::watch_key decided{}; // process_entry.key
        rules::ProcessFacts facts;
    };
    Entry &entry(std::uint32_t tgid);
    rules::ProcessFacts read(const capture::ProcessRef &process, const std::string &comm, std::uint32_t uid) const;

    capture::OsRoots os_;
    std::unordered_map<std::uint32_t, Entry> entries_;
    std::unordered_map<std::string, rules::ProcessFacts> learnt_; // by the bytes of a watch_key
};

} // namespace incident::daemon
