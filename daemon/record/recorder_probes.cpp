// Puts probes that are put one by one: uprobes of latency rules, and those on spa_sync of the ZFS module.
#include "daemon/record/recorder_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

namespace incident::daemon {

namespace {

const char *program_of(Recorder::UprobeRole role) {
    switch (role) {
    case Recorder::UprobeRole::EnterCall:
        return "enter_call";
    case Recorder::UprobeRole::LeaveCall:
    case Recorder::UprobeRole::LeaveAtRet:
        return "leave_call";
    case Recorder::UprobeRole::EnterPair:
        return "enter_pair";
    case Recorder::UprobeRole::LeavePair:
        return "leave_pair";
    case Recorder::UprobeRole::EnterKeyed:
        return "enter_keyed";
    case Recorder::UprobeRole::LeaveKeyed:
        return "leave_keyed";
    case Recorder::UprobeRole::UnwindLands:
        return "unwind_lands";
    case Recorder::UprobeRole::LongJump:
        return "long_jump";
    case Recorder::UprobeRole::SwitchStack:
        return "switch_stack";
    case Recorder::UprobeRole::CodeLoaded:
        return "code_loaded";
    }
    return "";
}

} // namespace

Result<Attached> Recorder::attach(UprobeRole role, const UprobePoint &point, std::uint32_t probe) {
    return attach_uprobe(*impl_->attacher, program_of(role), point.path,
                         {.pid = point.pid.value_or(0),
                          .on_return = role == UprobeRole::LeaveCall,
                          .offset = point.offset.value,
                          .semaphore = point.semaphore.value,
                          .cookie = probe | point.flags | (role == UprobeRole::LeaveAtRet ? LEAVE_AT_RET : 0)});
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
    AttachRequest request{.what = AttachRequest::What::Kprobe, .on_return = on_return};
    if (!put_name(request.program, program) || !put_name(request.name, function))
        return fail(fmt::format("no BPF program {}, or no function {}", program, function));
    return attached(impl_->attacher->ask(request));
}

Result<Attached> Recorder::attach_txg_fentry() {
    return attached(impl_->attacher->ask({.what = AttachRequest::What::TxgFentry}));
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
