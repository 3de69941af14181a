// Reads the rings of threads through the mappings, and the process table.
#include "daemon/record/recorder_impl.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace incident::daemon {

namespace {

template <typename Record> void drop_oldest(std::vector<Record> &records, std::uint64_t count) {
    const auto end = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, records.size()));
    records.erase(records.begin(), records.begin() + end);
}

// Nothing that is read below this may be older than what was read above it: the kernel side writes in that order.
void in_this_order() {
    std::atomic_thread_fence(std::memory_order_acquire);
}

} // namespace

bpf::thread_slot Recorder::header(std::uint32_t slot) const {
    // volatile-free copy of memory another context may write: each field is read once,
    // and callers compare generation and counters again after using it.
    bpf::thread_slot copy;
    std::memcpy(&copy, impl_->threads.element<bpf::thread_slot>(slot), sizeof(copy));
    return copy;
}

bpf::syscall_record Recorder::last_call(std::uint32_t slot) const {
    const bpf::thread_slot thread = header(slot);
    return thread.call[(thread.syscalls - 1) & 1];
}

std::uint32_t Recorder::slots() const {
    return impl_->record.threads;
}

// The header with a call in flight that is whole: its place is written over by the next but one.  Of a thread that is
// never seen to rest the call in flight is left out in the end.
bpf::thread_slot Recorder::steady_header(std::uint32_t slot) const {
    constexpr int tries = 8;
    auto *thread = impl_->threads.element<bpf::thread_slot>(slot);
    const std::atomic_ref<__u64> entered(thread->syscalls);
    bpf::thread_slot copy;
    for (int i = 0; i < tries; ++i) {
        const __u64 before = entered.load(std::memory_order_acquire);
        copy = header(slot);
        in_this_order();
        if (copy.syscalls == before && entered.load(std::memory_order_relaxed) == before)
            return copy;
    }
    if (copy.in_call && copy.syscalls) {
        copy.in_call = 0;
        --copy.syscalls;
    }
    return copy;
}

// A copy of a segment of the slot's thread; none if it has been taken out of the chain meanwhile.
std::optional<bpf::call_segment> Recorder::segment(std::uint32_t slot, std::uint32_t index_plus_one) const {
    if (index_plus_one == 0 || index_plus_one > impl_->segments_in_pool)
        return std::nullopt;
    const auto *at = impl_->segments.element<bpf::call_segment>(index_plus_one - 1);
    bpf::call_segment copy;
    const auto serial = std::atomic_ref(const_cast<__u32 &>(at->serial)).load(std::memory_order_acquire);
    copy.filled = std::atomic_ref(const_cast<__u64 &>(at->filled)).load(std::memory_order_acquire);
    std::memcpy(&copy.generation, &at->generation, sizeof(copy) - offsetof(bpf::call_segment, generation));
    in_this_order();
    const auto oldest = impl_->threads.element<bpf::thread_slot>(slot)->oldest;
    if (copy.serial != serial || std::int32_t(serial - static_cast<std::uint32_t>(oldest >> 32)) < 0)
        return std::nullopt;
    return copy;
}

std::optional<capture::ThreadRings> Recorder::read(std::uint32_t slot, std::uint64_t generation,
                                                   const CallsWanted &wanted) const {
    if (slot >= impl_->record.threads)
        return std::nullopt;
    capture::ThreadRings rings;
    rings.slot = steady_header(slot);
    if (rings.slot.generation != generation)
        return std::nullopt;

    bpf::thread_side side;
    std::memcpy(&side, impl_->sides.element<bpf::thread_side>(slot), sizeof(side));
    in_this_order();
    const bpf::thread_slot after = header(slot);
    read_calls(slot, rings, wanted, after.syscalls == rings.slot.syscalls ? &side : nullptr);
    const std::uint64_t grown = std::min<std::uint64_t>(rings.slot.memory_events, MEMORY_RECORDS);
    for (std::uint64_t index = rings.slot.memory_events - grown; index < rings.slot.memory_events; ++index)
        rings.memory.push_back(side.memory[index & (MEMORY_RECORDS - 1)]);
    // A living thread goes on writing: what it may have overwritten meanwhile is left out.
    drop_oldest(rings.memory, grown == MEMORY_RECORDS ? after.memory_events - rings.slot.memory_events : 0);
    if (header(slot).generation != generation)
        return std::nullopt;
    return rings;
}

std::vector<std::uint32_t> Recorder::slots_of(const capture::ProcessRef &process) const {
    std::vector<std::uint32_t> found;
    for (std::uint32_t slot = 0; slot < impl_->record.threads; ++slot) {
        const auto *thread = impl_->threads.element<bpf::thread_slot>(slot);
        if (thread->state != bpf::SLOT_FREE && thread->state != bpf::SLOT_RELEASED &&
            capture::process_of(*thread) == process)
            found.push_back(slot);
    }
    return found;
}

void Recorder::release(std::uint32_t slot) {
    if (slot >= impl_->record.threads)
        return;
    auto *thread = impl_->threads.element<bpf::thread_slot>(slot);
    std::atomic_ref<__u32> state(thread->state);
    __u32 expected = bpf::SLOT_PINNED;
    if (state.compare_exchange_strong(expected, bpf::SLOT_RELEASED))
        return; // its thread's exit gives it back
    if (expected != bpf::SLOT_EXITED)
        return;
    impl_->give_back(thread->share, &bpf::user_share::slots);
    state.store(bpf::SLOT_FREE);
    if (bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.free_slots), nullptr, &slot, BPF_ANY) == 0)
        std::atomic_ref<__u32>(impl_->skeleton->bss->slots_free).fetch_add(1);
}

std::optional<bpf::process_entry> Recorder::process(std::uint32_t tgid) const {
    bpf::process_entry entry{};
    if (bpf_map_lookup_elem(bpf_map__fd(impl_->skeleton->maps.processes), &tgid, &entry))
        return std::nullopt;
    return entry;
}

std::vector<std::uint32_t> Recorder::processes() const {
    const int map = bpf_map__fd(impl_->skeleton->maps.processes);
    const std::size_t most = 2ull * bpf_map__max_entries(impl_->skeleton->maps.processes);
    std::vector<std::uint32_t> tgids;
    std::uint32_t key = 0, next = 0;
    // A deleted key restarts the walk (kernel/bpf/hashtab.c): bounded all the same.
    for (std::uint32_t *from = nullptr; bpf_map_get_next_key(map, from, &next) == 0; from = &key) {
        key = next;
        tgids.push_back(next);
        if (tgids.size() > most)
            break;
    }
    std::ranges::sort(tgids);
    tgids.erase(std::ranges::unique(tgids).begin(), tgids.end());
    return tgids;
}

} // namespace incident::daemon
