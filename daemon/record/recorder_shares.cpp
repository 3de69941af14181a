// What one user has of what there is little of, and who died without room for an event.
#include "daemon/record/recorder_impl.h"

#include <atomic>
#include <cstring>

namespace incident::daemon {

// One less of what that user holds.  The kernel side counts the same number on other CPUs.
void Recorder::Impl::give_back(std::uint32_t share, __u32 bpf::user_share::*held) {
    auto *of = reinterpret_cast<bpf::user_share *>(skeleton->bss->share_words[share & (SHARES - 1)]);
    std::atomic_ref<__u32>(of->*held).fetch_sub(1);
}

std::optional<bpf::kept_death> Recorder::kept_death(const capture::ProcessRef &process) const {
    bpf::kept_death kept{};
    if (bpf_map_lookup_elem(bpf_map__fd(impl_->skeleton->maps.kept_deaths), &process.pid, &kept) ||
        kept.start_boot_ns != process.start.ns)
        return std::nullopt;
    return kept;
}

void Recorder::forget_process(std::uint32_t tgid) {
    const auto &maps = impl_->skeleton->maps;
    if (const auto entry = process(tgid); entry && bpf_map_delete_elem(bpf_map__fd(maps.processes), &tgid) == 0) {
        std::atomic_ref<__u32>(impl_->skeleton->bss->process_entries).fetch_sub(1);
        impl_->give_back(entry->share, &bpf::user_share::processes);
    }
    bpf::kept_death kept{};
    const int deaths = bpf_map__fd(maps.kept_deaths);
    if (bpf_map_lookup_elem(deaths, &tgid, &kept) == 0 && bpf_map_delete_elem(deaths, &tgid) == 0) {
        std::atomic_ref<__u32>(impl_->skeleton->bss->deaths_kept).fetch_sub(1);
        impl_->give_back(kept.share, &bpf::user_share::kept);
    }
}

std::vector<bpf::user_share> Recorder::shares() const {
    std::vector<bpf::user_share> all;
    for (const auto &words : impl_->skeleton->bss->share_words) {
        static_assert(sizeof(words) == sizeof(bpf::user_share));
        bpf::user_share share;
        std::memcpy(&share, words, sizeof(share));
        if (share.owner)
            all.push_back(share);
    }
    return all;
}

} // namespace incident::daemon
