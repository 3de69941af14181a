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

void forget_path(capture::OpenEntry &open) {
    open.path.clear();
    open.whole = false;
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
    const std::uint64_t length = impl_->record.syscalls, made = header(slot).syscalls;
    return *impl_->records.element<bpf::syscall_record>(slot * length + ((made - 1) & (length - 1)));
}

std::uint32_t Recorder::slots() const {
    return impl_->record.threads;
}

std::optional<capture::ThreadRings> Recorder::read(std::uint32_t slot, std::uint64_t generation) const {
    if (slot >= impl_->record.threads)
        return std::nullopt;
    capture::ThreadRings rings;
    rings.slot = header(slot);
    if (rings.slot.generation != generation)
        return std::nullopt;
    const std::uint64_t length = impl_->record.syscalls;
    const std::uint64_t kept = std::min<std::uint64_t>(rings.slot.syscalls, length);
    rings.syscalls.reserve(kept);
    for (std::uint64_t index = rings.slot.syscalls - kept; index < rings.slot.syscalls; ++index)
        rings.syscalls.push_back(*impl_->records.element<bpf::syscall_record>(slot * length + (index & (length - 1))));

    bpf::thread_side side;
    std::memcpy(&side, impl_->sides.element<bpf::thread_side>(slot), sizeof(side));
    const std::uint64_t opens = std::min<std::uint64_t>(rings.slot.opens, OPEN_RECORDS);
    for (std::uint64_t index = rings.slot.opens - opens; index < rings.slot.opens; ++index) {
        capture::OpenEntry entry{side.opens[index & (OPEN_RECORDS - 1)], {}, true};
        const auto &record = entry.record;
        const bool same_lap = record.lap == rings.slot.path_lap;
        const bool last_lap = record.lap + 1 == rings.slot.path_lap && rings.slot.path_offset <= record.offset;
        entry.whole = (same_lap || last_lap) && record.offset < PATH_LAP;
        if (entry.whole && (record.status == bpf::PATH_KEPT || record.status == bpf::PATH_CUT))
            entry.path.assign(side.heap + record.offset, std::min<std::size_t>(record.length, PATH_MAX_LEN));
        // No path holds a NUL.  The kernel copies words, and clears all it was given room for where it cannot
        // read (bpf_probe_read_user_str): so one that is not yet reached by a newer path may be wiped already.
        if (entry.path.find('\0') != std::string::npos)
            forget_path(entry);
        rings.opens.push_back(std::move(entry));
    }
    const std::uint64_t grown = std::min<std::uint64_t>(rings.slot.memory_events, MEMORY_RECORDS);
    for (std::uint64_t index = rings.slot.memory_events - grown; index < rings.slot.memory_events; ++index)
        rings.memory.push_back(side.memory[index & (MEMORY_RECORDS - 1)]);

    // A living thread went on writing meanwhile: drop what it may have overwritten.
    const bpf::thread_slot after = header(slot);
    if (after.generation != generation)
        return std::nullopt;
    drop_oldest(rings.syscalls, kept == length ? after.syscalls - rings.slot.syscalls : 0);
    drop_oldest(rings.opens, opens == OPEN_RECORDS ? after.opens - rings.slot.opens : 0);
    drop_oldest(rings.memory, grown == MEMORY_RECORDS ? after.memory_events - rings.slot.memory_events : 0);
    if (after.syscalls != rings.slot.syscalls) // a path may be on its way into the heap, over those of the lap before
        for (auto &open : rings.opens)
            if (open.record.lap != after.path_lap)
                forget_path(open);
    // A record is written before it is counted: the oldest may be the newest by now.
    if (rings.syscalls.size() > 1 && rings.syscalls[0].start_ns > rings.syscalls[1].start_ns)
        drop_oldest(rings.syscalls, 1);
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
