// Reads the distinct facts that are remembered of a process (bpf/tallies.h), through the mapping.
#include "daemon/record/recorder_impl.h"

#include <atomic>
#include <cstring>
#include <thread>

namespace incident::daemon {

namespace {

// A copy of an entry as it is between two changes.  Of one that is being changed all the time, or whose writer has been
// interrupted, as it is: then two of its numbers may be of two meetings.
bpf::tally steady_copy(const bpf::tally &entry) {
    constexpr int tries = 256, tries_before_rest = 32;
    const std::atomic_ref<__u32> seq(const_cast<__u32 &>(entry.seq));
    bpf::tally copy;
    for (int i = 0; i < tries; ++i) {
        const __u32 before = seq.load(std::memory_order_acquire);
        std::memcpy(&copy, &entry, sizeof(copy));
        std::atomic_thread_fence(std::memory_order_acquire);
        if (!(before & 1) && seq.load(std::memory_order_relaxed) == before)
            break;
        if (i % tries_before_rest == tries_before_rest - 1)
            std::this_thread::yield();
    }
    return copy;
}

} // namespace

std::vector<bpf::tally> Recorder::tallies(const capture::ProcessRef &process) const {
    std::vector<bpf::tally> found;
    for (std::uint32_t index = 0; index < impl_->tally_sets; ++index) {
        const auto *set = impl_->tallies.element<bpf::tally_set>(index);
        for (int way = 0; way < TALLY_WAYS; ++way) {
            if (set->tgid[way] != process.pid)
                continue;
            const std::atomic_ref<__u64> hash(const_cast<__u64 &>(set->hash[way]));
            const __u64 before = hash.load(std::memory_order_acquire);
            const bpf::tally tally = steady_copy(set->entry[way]);
            // Its place may have become another fact's meanwhile, of this or another process.
            std::atomic_thread_fence(std::memory_order_acquire);
            if (before && hash.load(std::memory_order_relaxed) == before && tally.tgid == process.pid &&
                tally.process_start_boot_ns == process.start.ns)
                found.push_back(tally);
        }
    }
    return found;
}

} // namespace incident::daemon
