#include "daemon/record/recorder_heap.h"

#include "daemon/record/recorder_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace incident::daemon {

namespace {

// All of a hash map.  Elements come and go meanwhile; one that stays is read once.
template <typename Value> std::vector<std::pair<std::uint64_t, Value>> read_all(int map) {
    constexpr std::uint32_t at_once = 4096;
    std::vector<std::pair<std::uint64_t, Value>> all;
    std::vector<std::uint64_t> keys(at_once);
    std::vector<Value> values(at_once);
    std::uint32_t position = 0;
    for (bool first = true;; first = false) {
        std::uint32_t count = at_once;
        // ENOENT: this was the last batch; ENOSPC: a bucket with more than a batch, which cannot be
        // (kernel/bpf/hashtab.c)
        const int error = bpf_map_lookup_batch(map, first ? nullptr : &position, &position, keys.data(), values.data(),
                                               &count, nullptr);
        if (error && errno != ENOENT)
            break;
        for (std::uint32_t i = 0; i < count; ++i)
            all.emplace_back(keys[i], values[i]);
        if (error)
            break;
    }
    return all;
}

} // namespace

std::vector<std::pair<std::uint64_t, bpf::heap_allocation>> HeapMaps::live() const {
    return read_all<bpf::heap_allocation>(live_.get());
}

std::vector<std::pair<std::uint64_t, bpf::heap_stack>> HeapMaps::stacks() const {
    return read_all<bpf::heap_stack>(stacks_.get());
}

std::vector<bpf::heap_record> HeapMaps::history(std::uint64_t written) const {
    std::vector<bpf::heap_record> records;
    if (!mapped_)
        return records;
    const bpf::heap_record *ring = mapped_.get();
    const std::uint64_t length = sizes_.history;
    records.reserve(std::min(written, length));
    for (std::uint64_t i = written - std::min(written, length); i < written; ++i) {
        const bpf::heap_record &theirs = ring[i & (length - 1)];
        const std::atomic_ref<__u64> seq(const_cast<__u64 &>(theirs.seq)); // only read
        bpf::heap_record copy;
        if (seq.load(std::memory_order_acquire) != i + 1)
            continue; // being written, or overwritten by a newer one
        std::memcpy(&copy, &theirs, sizeof(copy));
        std::atomic_thread_fence(std::memory_order_acquire);
        if (seq.load(std::memory_order_relaxed) == i + 1)
            records.push_back(copy);
    }
    return records;
}

struct HeapKernel::Impl {
    Attacher *attacher = nullptr;
    UniqueFd live, stacks, history; // by slot, the maps of a process
    Mapping accounts;
    bpf::heap_account *account(unsigned slot) const { return accounts.element<bpf::heap_account>(slot); }
};

HeapKernel::~HeapKernel() = default;

Result<std::unique_ptr<HeapKernel>> HeapKernel::load(Attacher &attacher) {
    std::unique_ptr<HeapKernel> kernel(new HeapKernel);
    kernel->impl_ = std::make_unique<Impl>();
    Impl &impl = *kernel->impl_;
    impl.attacher = &attacher;
    auto maps = attacher.ask({.what = AttachRequest::What::LoadHeap});
    if (!maps)
        return fail(maps.error());
    auto accounts = Mapping::of((*maps)[0].get(), sizeof(bpf::heap_account), HEAP_PROCESSES, true);
    if (!accounts)
        return fail(accounts.error());
    impl.accounts = std::move(*accounts);
    impl.live = std::move((*maps)[1]);
    impl.stacks = std::move((*maps)[2]);
    impl.history = std::move((*maps)[3]);
    return kernel;
}

Result<HeapMaps> HeapKernel::make_maps(const HeapSizes &sizes) const {
    auto made = impl_->attacher->ask(
        {.what = AttachRequest::What::MakeHeapMaps, .entries = {sizes.live, sizes.stacks, sizes.history}});
    if (!made)
        return fail(made.error());
    HeapMaps maps;
    maps.sizes_ = sizes;
    maps.live_ = std::move((*made)[0]);
    maps.stacks_ = std::move((*made)[1]);
    maps.history_ = std::move((*made)[2]);
    if (!sizes.history)
        return maps;
    const std::size_t bytes = std::size_t{sizes.history} * sizeof(bpf::heap_record);
    void *at = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, maps.history_.get(), 0);
    if (at == MAP_FAILED)
        return fail(Error::system("mapping the history of a heap"));
    maps.mapped_ = {static_cast<const bpf::heap_record *>(at), [bytes](const bpf::heap_record *mapped) {
                        ::munmap(const_cast<bpf::heap_record *>(mapped), bytes);
                    }};
    return maps;
}

Status HeapKernel::begin(unsigned slot, const bpf::heap_account &settings, const HeapMaps &maps) {
    *impl_->account(slot) = settings;
    const std::pair<const UniqueFd &, const UniqueFd &> inner[] = {
        {impl_->live, maps.live_}, {impl_->stacks, maps.stacks_}, {impl_->history, maps.history_}};
    for (const auto &[outer, own] : inner) {
        const __u32 key = slot, value = static_cast<__u32>(own.get());
        if (bpf_map_update_elem(outer.get(), &key, &value, BPF_ANY))
            return fail(Error::system("giving a process its maps"));
    }
    return {};
}

void HeapKernel::end(unsigned slot) {
    const __u32 key = slot;
    for (const UniqueFd *outer : {&impl_->live, &impl_->stacks, &impl_->history})
        bpf_map_delete_elem(outer->get(), &key); // ENOENT: begin() had failed
}

bpf::heap_account HeapKernel::account(unsigned slot) const {
    bpf::heap_account copy;
    std::memcpy(&copy, impl_->account(slot), sizeof(copy));
    return copy;
}

void HeapKernel::set_ranges(unsigned slot, const bpf::heap_account &settings) {
    std::memcpy(impl_->account(slot)->range, settings.range, sizeof(settings.range));
}

void HeapKernel::set_history_mask(unsigned slot, std::uint64_t mask) {
    std::atomic_ref<__u64>(impl_->account(slot)->history_mask).store(mask);
}

Result<Attached> HeapKernel::attach(Role role, const std::string &path, capture::FileOffset offset, std::uint32_t pid,
                                    std::uint64_t cookie) {
    const char *program = role == Role::Enter ? "heap_enter" : role == Role::Free ? "heap_free" : "heap_leave";
    return attach_uprobe(*impl_->attacher, program, path,
                         {.pid = pid, .on_return = role == Role::Leave, .offset = offset.value, .cookie = cookie});
}

} // namespace incident::daemon
