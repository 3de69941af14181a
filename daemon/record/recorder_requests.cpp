// Reads which requests of io_uring are in flight (bpf/requests.h).
#include "daemon/record/recorder_impl.h"

#include <algorithm>
#include <atomic>

namespace incident::daemon {

namespace {

struct Pending {
    __u64 key = 0;
    bpf::pending_request request{};
};

// While others are added and removed: one that is there from beginning to end is found.
std::vector<Pending> all_pending(int map) {
    constexpr std::uint32_t at_once = 512;
    std::vector<Pending> all;
    std::vector<__u64> keys(at_once);
    std::vector<bpf::pending_request> values(at_once);
    LIBBPF_OPTS(bpf_map_batch_opts, options);
    __u32 batch = 0, *from = nullptr;
    for (int error = 0; error == 0 && all.size() < 2uz * REQUESTS_MAX; from = &batch) {
        __u32 count = at_once;
        error = bpf_map_lookup_batch(map, from, &batch, keys.data(), values.data(), &count, &options);
        if (error != 0 && error != -ENOENT) // -ENOENT: these were the last
            break;
        for (__u32 i = 0; i < count; ++i)
            all.push_back({keys[i], values[i]});
    }
    return all;
}

std::string named_by(const bpf::pending_request &pending) {
    const std::string_view path(pending.path, std::min<std::size_t>(pending.path_length, REQUEST_PATH_LEN));
    return std::string(path.substr(0, path.find('\0')));
}

} // namespace

std::vector<capture::Request> Recorder::requests_in_flight(const capture::ProcessRef &process) const {
    if (std::atomic_ref<__u32>(impl_->skeleton->bss->requests_pending).load() == 0)
        return {};
    std::vector<capture::Request> found;
    for (const Pending &pending : all_pending(bpf_map__fd(impl_->skeleton->maps.io_requests)))
        if (pending.request.tgid == process.pid && pending.request.process_start_boot_ns == process.start.ns)
            found.push_back({pending.request.request, named_by(pending.request)});
    std::ranges::sort(found, {}, &capture::Request::t_ns);
    return found;
}

void Recorder::tend_requests() {
    std::atomic_ref<__u32> count(impl_->skeleton->bss->requests_pending);
    if (count.load() == 0)
        return;
    const int map = bpf_map__fd(impl_->skeleton->maps.io_requests);
    const auto is_recorded = [&](const bpf::pending_request &pending) {
        const auto entry = process(pending.tgid);
        return entry && entry->start_boot_ns == pending.process_start_boot_ns;
    };
    for (const Pending &pending : all_pending(map)) {
        // It may be another by the time it is taken out: the kernel reuses the addresses of requests.
        bpf::pending_request taken{};
        if (is_recorded(pending.request) || bpf_map_lookup_and_delete_elem(map, &pending.key, &taken) != 0)
            continue;
        if (is_recorded(taken) && bpf_map_update_elem(map, &pending.key, &taken, BPF_NOEXIST) == 0)
            continue;
        count.fetch_sub(1);
        impl_->give_back(taken.share, &bpf::user_share::requests);
    }
}

} // namespace incident::daemon
