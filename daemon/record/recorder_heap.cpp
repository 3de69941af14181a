#include "daemon/record/recorder_heap.h"

#include "daemon/record/recorder_impl.h"

#include "heap.skel.h"

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

// Like that one, but for its size: with the same BTF too, for Linux 6.1 takes a map without for one of another
// kind (kernel/bpf/map_in_map.c, bpf_map_meta_equal: timer_off).
Result<UniqueFd> make_map(const bpf_map *like, int btf, std::uint32_t entries) {
    bpf_map_create_opts options{};
    options.sz = sizeof(options);
    options.map_flags = bpf_map__map_flags(like);
    options.btf_fd = static_cast<__u32>(btf);
    options.btf_key_type_id = bpf_map__btf_key_type_id(like);
    options.btf_value_type_id = bpf_map__btf_value_type_id(like);
    UniqueFd fd(bpf_map_create(bpf_map__type(like), bpf_map__name(like), bpf_map__key_size(like),
                               bpf_map__value_size(like), entries, &options));
    if (!fd)
        return fail(Error::system(fmt::format("making a map {} of {} entries", bpf_map__name(like), entries)));
    return fd;
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
    heap_bpf *skeleton = nullptr;
    Mapping accounts;
    ~Impl() { heap_bpf__destroy(skeleton); }
    bpf::heap_account *account(unsigned slot) const { return accounts.element<bpf::heap_account>(slot); }
};

HeapKernel::~HeapKernel() = default;

Result<std::unique_ptr<HeapKernel>> HeapKernel::load() {
    std::unique_ptr<HeapKernel> kernel(new HeapKernel);
    kernel->impl_ = std::make_unique<Impl>();
    Impl &impl = *kernel->impl_;
    libbpf_log().clear();
    impl.skeleton = heap_bpf__open();
    if (!impl.skeleton)
        return fail(Error::system("opening the heap recorder's programs"));
    if (const int error = heap_bpf__load(impl.skeleton))
        return fail(libbpf_error("loading the heap recorder's programs", -error));
    auto accounts =
        Mapping::of(bpf_map__fd(impl.skeleton->maps.heap_accounts), sizeof(bpf::heap_account), HEAP_PROCESSES, true);
    if (!accounts)
        return fail(accounts.error());
    impl.accounts = std::move(*accounts);
    return kernel;
}

Result<HeapMaps> HeapKernel::make_maps(const HeapSizes &sizes) const {
    HeapMaps maps;
    maps.sizes_ = sizes;
    const auto &like = impl_->skeleton->maps;
    const int btf = bpf_object__btf_fd(impl_->skeleton->obj);
    auto live = make_map(like.one_live, btf, sizes.live);
    auto stacks = make_map(like.one_stacks, btf, sizes.stacks);
    auto history = make_map(like.one_history, btf, std::max(sizes.history, 1u));
    for (auto *made : {&live, &stacks, &history})
        if (!*made)
            return fail(made->error());
    maps.live_ = std::move(*live);
    maps.stacks_ = std::move(*stacks);
    maps.history_ = std::move(*history);
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
    const auto &outer = impl_->skeleton->maps;
    const std::pair<bpf_map *, int> inner[] = {{outer.heap_live, maps.live_.get()},
                                               {outer.heap_stacks, maps.stacks_.get()},
                                               {outer.heap_history, maps.history_.get()}};
    for (const auto &[map, fd] : inner) {
        const __u32 key = slot, value = static_cast<__u32>(fd);
        if (bpf_map_update_elem(bpf_map__fd(map), &key, &value, BPF_ANY))
            return fail(Error::system(fmt::format("giving a process its map {}", bpf_map__name(map))));
    }
    return {};
}

void HeapKernel::end(unsigned slot) {
    const auto &outer = impl_->skeleton->maps;
    const __u32 key = slot;
    for (bpf_map *map : {outer.heap_live, outer.heap_stacks, outer.heap_history})
        bpf_map_delete_elem(bpf_map__fd(map), &key); // ENOENT: begin() had failed
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
    const auto &programs = impl_->skeleton->progs;
    bpf_uprobe_opts options{};
    options.sz = sizeof(options);
    options.bpf_cookie = cookie;
    options.retprobe = role == Role::Leave;
    bpf_program *program = role == Role::Enter  ? programs.heap_enter
                           : role == Role::Free ? programs.heap_free
                                                : programs.heap_leave;
    libbpf_log().clear();
    bpf_link *link =
        bpf_program__attach_uprobe_opts(program, static_cast<pid_t>(pid), path.c_str(), offset.value, &options);
    if (!link)
        return fail(Error::system(fmt::format("attaching a uprobe at file offset {:#x}", offset.value)));
    return Attached(link, {[](void *what) { bpf_link__destroy(static_cast<bpf_link *>(what)); }});
}

} // namespace incident::daemon
