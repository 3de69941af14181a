// Gives segments of the pool of calls back to it.
#include "daemon/os/clocks.h"
#include "daemon/record/recorder_impl.h"

#include <algorithm>
#include <atomic>

namespace incident::daemon {

namespace {

constexpr std::uint32_t most_at_once = 8192; // segments: each costs a system call, and the loop has other work

bool has_ended(const bpf::thread_slot &thread) {
    return thread.state == bpf::SLOT_FREE;
}

} // namespace

// Takes the oldest segment out of the slot's chain and gives it back; false if it is the newest one, too, or its thread
// has just taken it itself.
bool Recorder::Impl::take_oldest(std::uint32_t slot) {
    auto *thread = threads.element<bpf::thread_slot>(slot);
    std::atomic_ref<__u64> place(thread->oldest);
    __u64 oldest = place.load();
    const auto index = static_cast<std::uint32_t>(oldest);
    const __u32 newest = std::atomic_ref<__u32>(thread->newest).load();
    if (index == 0 || index > segments_in_pool || newest == 0 || index == newest)
        return false;
    const auto *segment = segments.element<bpf::call_segment>(index - 1);
    const std::uint64_t next = segment->next;
    const std::uint32_t share = segment->share;
    if (!place.compare_exchange_strong(oldest, ((oldest >> 32) + 1) << 32 | next))
        return false;
    std::atomic_ref<__u32>(thread->segments).fetch_sub(1);
    give_back(share, &bpf::user_share::segments);
    homeless.push_back(index - 1);
    house();
    return true;
}

// Gives back what has been taken.  The kernel may refuse it for a moment.
void Recorder::Impl::house() {
    std::erase_if(homeless, [&](const std::uint32_t &freed) {
        if (bpf_map_update_elem(bpf_map__fd(skeleton->maps.free_segments), nullptr, &freed, BPF_ANY))
            return false;
        std::atomic_ref<__s32>(skeleton->bss->segments_free).fetch_add(1);
        return true;
    });
}

// The threads that live and have segments or want some, without the times of these.
std::vector<SegmentHolder> Recorder::holders() {
    std::vector<SegmentHolder> all;
    for (std::uint32_t slot = 0; slot < impl_->record.threads; ++slot) {
        auto *thread = impl_->threads.element<bpf::thread_slot>(slot);
        if (thread->state != bpf::SLOT_LIVE || (!thread->oldest && !thread->refused))
            continue; // what a dying one has left stays until the daemon has read it
        all.push_back({.slot = slot,
                       .user = thread->share,
                       .process = capture::process_of(*thread),
                       .refused = std::atomic_ref<__u32>(thread->refused).exchange(0) != 0,
                       .segments = thread->segments,
                       .until_ns = {}});
    }
    return all;
}

void Recorder::find_ages(SegmentHolder &holder) const {
    const auto *thread = impl_->threads.element<bpf::thread_slot>(holder.slot);
    const std::uint32_t newest = thread->newest;
    auto at = static_cast<std::uint32_t>(thread->oldest);
    while (at != 0 && at != newest && at <= impl_->segments_in_pool && holder.until_ns.size() + 1 < holder.segments) {
        const auto *segment = impl_->segments.element<bpf::call_segment>(at - 1);
        holder.until_ns.push_back(segment->generation == thread->generation ? segment->last_ns : 0);
        at = segment->next;
    }
}

void Recorder::tend_pool() {
    for (std::uint32_t slot = 0; slot < impl_->record.threads; ++slot) // a grant is for a second
        if (auto *thread = impl_->threads.element<bpf::thread_slot>(slot); thread->granted)
            std::atomic_ref<__u32>(thread->granted).store(0);
    impl_->house();
    // A single user gets less than this leaves (bpf/segments.bpf.h: seven times what is left beyond an eighth).
    const std::uint32_t pool = impl_->segments_in_pool, wanted = pool / 4;
    const auto lacking = [&] {
        const auto free = std::atomic_ref<__s32>(impl_->skeleton->bss->segments_free).load();
        return wanted - std::min(wanted, static_cast<std::uint32_t>(std::max(free, 0)));
    };
    if (lacking() == 0)
        return;
    for (std::uint32_t slot = 0; slot < impl_->record.threads; ++slot)
        while (has_ended(*impl_->threads.element<bpf::thread_slot>(slot)) && impl_->take_oldest(slot)) {
        }
    const std::uint32_t more = std::min(lacking(), most_at_once);
    if (more == 0)
        return;
    std::vector<SegmentHolder> all = holders();
    if (!anybody_in_need(all, pool))
        return;
    for (SegmentHolder &holder : all)
        find_ages(holder);
    const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    const auto past = static_cast<std::uint64_t>(impl_->record.past.count());
    const PoolPlan plan = plan_pool(all, pool, more, now_ns - std::min(now_ns, past));
    for (const auto &[slot, count] : plan.grants) // first: the others are quick
        std::atomic_ref<__u32>(impl_->threads.element<bpf::thread_slot>(slot)->granted).store(count);
    for (const std::uint32_t slot : plan.takings)
        impl_->take_oldest(slot);
}

} // namespace incident::daemon
