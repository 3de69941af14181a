// Reads the distinct facts that are remembered of a process (bpf/tallies.h), through the mapping.
#include "daemon/record/recorder_impl.h"

#include <atomic>
#include <cstring>

namespace incident::daemon {

namespace {

// A copy of an entry as it is between two changes.  nullopt: somebody is changing it all the time, or has been
// interrupted in that.
std::optional<bpf::tally> steady_copy(const bpf::tally &entry) {
    constexpr int tries = 64;
    const std::atomic_ref<__u32> seq(const_cast<__u32 &>(entry.seq));
    for (int i = 0; i < tries; ++i) {
        const __u32 before = seq.load(std::memory_order_acquire);
        if (before & 1)
            continue;
        bpf::tally copy;
        std::memcpy(&copy, &entry, sizeof(copy));
        std::atomic_thread_fence(std::memory_order_acquire);
        if (seq.load(std::memory_order_relaxed) == before)
            return copy;
    }
    return std::nullopt;
}

} // namespace

std::vector<bpf::tally> Recorder::tallies(const capture::ProcessRef &process) const {
    std::vector<bpf::tally> found;
    for (std::uint32_t index = 0; index < impl_->tally_sets; ++index) {
        const auto *set = impl_->tallies.element<bpf::tally_set>(index);
        for (int way = 0; way < TALLY_WAYS; ++way) {
            if (set->tgid[way] != process.pid)
                continue;
            // Its place may have become another process's meanwhile: whose it is stands in the entry.
            if (auto tally = steady_copy(set->entry[way]);
                tally && tally->process_start_boot_ns == process.start.ns && tally->tgid == process.pid)
                found.push_back(*tally);
        }
    }
    return found;
}

} // namespace incident::daemon
