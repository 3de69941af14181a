// What TxgSyncs needs of the Recorder, and how it reads entries while the kernel side writes them.
#include "daemon/watch/txg/txg_syncs.h"

#include <atomic>
#include <cstring>

namespace incident::daemon {

std::optional<bpf::txg_sync> read_sync(const bpf::txg_sync &entry) {
    for (int attempt = 0; attempt < 100; ++attempt) {
        bpf::txg_sync copy;
        const auto before = std::atomic_ref(const_cast<__u64 &>(entry.seq)).load(std::memory_order_acquire);
        std::memcpy(&copy, &entry, sizeof(copy));
        std::atomic_thread_fence(std::memory_order_acquire);
        const auto after = std::atomic_ref(const_cast<__u64 &>(entry.seq)).load(std::memory_order_relaxed);
        if (before == after && before % 2 == 0)
            return copy;
    }
    return std::nullopt; // its writer was interrupted between two stores
}

TxgProbes TxgProbes::of(Recorder &recorder) {
    return {
        .fentry = [&recorder]() -> Result<std::vector<Attached>> {
            auto attached = recorder.attach_txg_fentry();
            if (!attached)
                return fail(attached.error());
            std::vector<Attached> all;
            all.push_back(std::move(*attached));
            return all;
        },
        .kprobes = [&recorder]() -> Result<std::vector<Attached>> {
            // The return first: a sync that is entered between the two is not seen, where the
            // other way round its return would not be.
            std::vector<Attached> all;
            for (const bool on_return : {true, false}) {
                auto attached = recorder.attach_kprobe(on_return ? "txg_leave" : "txg_enter", "spa_sync", on_return);
                if (!attached)
                    return fail(attached.error());
                all.push_back(std::move(*attached));
            }
            return all;
        },
        .syncs = [&recorder] { return recorder.txg_syncs(); },
        .set_threshold = [&recorder](std::uint64_t ns) { return recorder.set_txg_threshold(ns); },
    };
}

} // namespace incident::daemon
