// Puts probes that are put one by one: uprobes of latency rules, and those on spa_sync of the ZFS module.
#include "daemon/record/recorder_impl.h"

#include "txg_fentry.skel.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace incident::daemon {

namespace {

template <typename Programs> bpf_program *program_of(Recorder::UprobeRole role, const Programs &programs) {
    switch (role) {
    case Recorder::UprobeRole::EnterCall:
        return programs.enter_call;
    case Recorder::UprobeRole::LeaveCall:
    case Recorder::UprobeRole::LeaveAtRet:
        return programs.leave_call;
    case Recorder::UprobeRole::EnterPair:
        return programs.enter_pair;
    case Recorder::UprobeRole::LeavePair:
        return programs.leave_pair;
    case Recorder::UprobeRole::EnterKeyed:
        return programs.enter_keyed;
    case Recorder::UprobeRole::LeaveKeyed:
        return programs.leave_keyed;
    case Recorder::UprobeRole::UnwindLands:
        return programs.unwind_lands;
    case Recorder::UprobeRole::LongJump:
        return programs.long_jump;
    case Recorder::UprobeRole::SwitchStack:
        return programs.switch_stack;
    case Recorder::UprobeRole::CodeLoaded:
        return programs.code_loaded;
    }
    return nullptr;
}

} // namespace

Recorder::Uprobe::~Uprobe() {
    bpf_link__destroy(static_cast<bpf_link *>(link_));
}

Result<Recorder::Uprobe> Recorder::attach(UprobeRole role, const UprobePoint &point, std::uint32_t probe) {
    const auto &programs = impl_->skeleton->progs;
    bpf_program *program = program_of(role, programs);
    bpf_uprobe_opts options{};
    options.sz = sizeof(options);
    options.bpf_cookie = probe | point.flags | (role == UprobeRole::LeaveAtRet ? LEAVE_AT_RET : 0);
    options.ref_ctr_offset = point.semaphore.value;
    options.retprobe = role == UprobeRole::LeaveCall;
    libbpf_log().clear();
    bpf_link *link = bpf_program__attach_uprobe_opts(program, point.pid ? static_cast<pid_t>(*point.pid) : -1,
                                                     point.path.c_str(), point.offset.value, &options);
    if (!link)
        return fail(Error::system(fmt::format("attaching a uprobe at file offset {:#x}", point.offset.value)));
    return Uprobe(link);
}

void Recorder::set_probe(std::uint32_t probe, const bpf::probe_setting &setting) {
    const __u32 index = PROBE_INDEX(probe);
    bpf::probe_setting own = setting;
    own.id = probe;
    bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.probe_settings), &index, &own, BPF_ANY);
}

bpf::probe_count Recorder::probe_count(std::uint32_t probe) const {
    bpf::probe_count sum{};
    std::vector<bpf::probe_count> per_cpu(impl_->cpus);
    const __u32 index = PROBE_INDEX(probe);
    if (bpf_map_lookup_elem(bpf_map__fd(impl_->skeleton->maps.probe_counts), &index, per_cpu.data()) != 0)
        return sum;
    for (const auto &count : per_cpu) {
        sum.calls += count.calls;
        sum.missed += count.missed;
        sum.left += count.left;
        sum.uncertain += count.uncertain;
        sum.overflow += count.overflow;
        sum.unmatched += count.unmatched;
        sum.unrecorded += count.unrecorded;
        sum.unsent += count.unsent;
    }
    return sum;
}

std::vector<std::uint32_t> Recorder::slots_with_calls() const {
    std::vector<std::uint32_t> slots;
    for (std::uint32_t word = 0; word <= impl_->record.threads / 64; ++word) {
        std::uint64_t bits = std::atomic_ref<__u64>(*impl_->call_slots.element<__u64>(word)).load();
        for (; bits; bits &= bits - 1)
            if (const std::uint32_t slot = word * 64 + std::countr_zero(bits); slot < impl_->record.threads)
                slots.push_back(slot);
    }
    return slots;
}

std::expected<bpf::thread_calls, Recorder::CallsUnread> Recorder::calls(std::uint32_t slot) const {
    if (slot >= impl_->record.threads)
        return std::unexpected(CallsUnread::None);
    auto *theirs = impl_->calls.element<bpf::thread_calls>(slot);
    const std::atomic_ref<__u64> sequence(theirs->sequence);
    for (int attempt = 0; attempt < 16; ++attempt) {
        const std::uint64_t before = sequence.load(std::memory_order_acquire);
        bpf::thread_calls copy;
        std::memcpy(&copy, theirs, sizeof(copy));
        std::atomic_thread_fence(std::memory_order_acquire);
        if ((before & 1) || sequence.load(std::memory_order_relaxed) != before)
            continue;
        if (copy.generation != impl_->threads.element<bpf::thread_slot>(slot)->generation)
            return std::unexpected(CallsUnread::None);
        copy.depth = std::min<__u32>(copy.depth, CALL_DEPTH);
        return copy;
    }
    return std::unexpected(CallsUnread::Busy);
}

void Recorder::forget_keyed_calls(const std::function<bool(const capture::ProcessRef &)> &lives) {
    const int map = bpf_map__fd(impl_->skeleton->maps.keyed_calls);
    bpf::keyed_call_key key{}, next{};
    std::vector<bpf::keyed_call_key> ended; // deleting while walking would begin the walk again
    for (int error = bpf_map_get_next_key(map, nullptr, &next); !error && ended.size() < KEYED_CALLS;
         error = bpf_map_get_next_key(map, &key, &next)) {
        key = next;
        if (!lives({key.tgid, {key.process_start_boot_ns}}))
            ended.push_back(key);
    }
    for (const auto &gone : ended)
        bpf_map_delete_elem(map, &gone);
}

Result<Attached> Recorder::attach_kprobe(const char *program, const char *function, bool on_return) {
    bpf_program *found = bpf_object__find_program_by_name(impl_->skeleton->obj, program);
    if (!found)
        return fail(fmt::format("no BPF program {}", program));
    libbpf_log().clear();
    bpf_link *link = bpf_program__attach_kprobe(found, on_return, function);
    if (!link)
        return fail(Error::system(fmt::format("{} on {}", on_return ? "kretprobe" : "kprobe", function)));
    return Attached(link, {[](void *what) { bpf_link__destroy(static_cast<bpf_link *>(what)); }});
}

Result<Attached> Recorder::attach_txg_fentry() {
    libbpf_log().clear();
    txg_fentry_bpf *opened = txg_fentry_bpf__open();
    if (!opened)
        return fail(Error::system("opening the fentry programs"));
    Attached owner(opened, {[](void *what) { txg_fentry_bpf__destroy(static_cast<txg_fentry_bpf *>(what)); }});
    // Of the maps that the shared headers declare only these are used, and they are the recorder's.
    const auto &mine = impl_->skeleton->maps;
    const std::pair<bpf_map *, bpf_map *> shared[] = {{opened->maps.events, mine.events},
                                                      {opened->maps.losses, mine.losses},
                                                      {opened->maps.txg_syncs, mine.txg_syncs},
                                                      {opened->maps.txg_threshold, mine.txg_threshold}};
    bpf_map *map = nullptr;
    bpf_object__for_each_map(map, opened->obj) {
        if (!bpf_map__is_internal(map))
            bpf_map__set_autocreate(map, false);
    }
    for (const auto &[to, from] : shared) {
        bpf_map__set_autocreate(to, true);
        if (const int error = bpf_map__reuse_fd(to, bpf_map__fd(from)))
            return fail(Error::system(fmt::format("sharing map {}", bpf_map__name(from)), -error));
    }
    if (const int error = txg_fentry_bpf__load(opened))
        return fail(libbpf_error("loading fentry/spa_sync", -error));
    if (const int error = txg_fentry_bpf__attach(opened))
        return fail(Error::system("attaching fentry/spa_sync", -error));
    return owner;
}

std::span<const bpf::txg_sync> Recorder::txg_syncs() const {
    static_assert(sizeof(bpf::txg_sync) % 8 == 0, "elements of the map are as far apart as of an array");
    return {impl_->txg_syncs.element<bpf::txg_sync>(0), TXG_SYNCS};
}

Status Recorder::set_txg_threshold(std::uint64_t ns) {
    const __u32 zero = 0;
    if (bpf_map_update_elem(bpf_map__fd(impl_->skeleton->maps.txg_threshold), &zero, &ns, BPF_ANY))
        return fail(Error::system("setting the threshold of ZFS syncs"));
    return {};
}

} // namespace incident::daemon
