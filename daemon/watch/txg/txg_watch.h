// The watch of txg_sync rules: collects the thresholds they ask for, and reports syncs that last longer.
#pragma once

#include "daemon/watch/txg/txg_syncs.h"
#include "daemon/watch/watch.h"

#include <map>
#include <string>
#include <utility>

namespace incident::daemon {

class TxgWatch : public Watch {
public:
    explicit TxgWatch(const WatchContext &context);

    void apply(std::uint64_t now_ns) override;
    void describe(ConditionStates &states) const override;
    std::uint64_t poll(std::uint64_t now_ns) override;
    std::optional<bool> take(const bpf::event_header &header, std::span<const std::uint8_t> bytes) override;
    void add_context(const FiredIncident &incident) const override;

private:
    void offer(const TxgStall &stall);

    TxgSyncs syncs_;
    // By pool, the group that was offered to the rules last, and the longest deadline for which it was offered in
    // flight.
    std::map<std::string, std::pair<std::uint64_t, std::uint64_t>> told_;
};

} // namespace incident::daemon
