// How many calls each process makes, and whose calls are recorded without their entries.
#include "daemon/record/recorder_impl.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>

namespace incident::daemon {

namespace {

bpf::untimed_key key_of(const capture::ProcessRef &process) {
    return {.start_boot_ns = process.start.ns, .tgid = process.pid, .zero = 0};
}

} // namespace

std::map<capture::ProcessRef, ProcessCalls> Recorder::calls_by_process() const {
    std::map<capture::ProcessRef, ProcessCalls> processes;
    for (std::uint32_t slot = 0; slot < impl_->record.threads; ++slot) {
        auto *thread = impl_->threads.element<bpf::thread_slot>(slot);
        if (thread->state != bpf::SLOT_LIVE)
            continue;
        ProcessCalls &known = processes[capture::process_of(*thread)];
        known.calls += std::atomic_ref(thread->syscalls).load(std::memory_order_relaxed);
        known.share = thread->share;
        if (known.comm.empty() || thread->tid == thread->tgid)
            known.comm.assign(thread->comm, ::strnlen(thread->comm, sizeof(thread->comm)));
    }
    for (auto &[of, calls] : processes)
        if (const auto entry = process(of.pid); entry && capture::process_of(*entry) == of)
            calls.calls += entry->calls_ended;
    return processes;
}

// A thread whose slot says otherwise decides again at its next call, and finds its process in the map, or not.
Status Recorder::leave_untimed(const std::set<capture::ProcessRef> &processes) {
    const int map = bpf_map__fd(impl_->skeleton->maps.untimed);
    std::erase_if(impl_->untimed, [&](const capture::ProcessRef &process) {
        const auto key = key_of(process);
        return !processes.contains(process) && bpf_map_delete_elem(map, &key) == 0;
    });
    std::size_t without_room = 0;
    for (const auto &process : processes) {
        const auto key = key_of(process);
        const __u32 value = 1;
        if (impl_->untimed.contains(process) || bpf_map_update_elem(map, &key, &value, BPF_ANY) == 0)
            impl_->untimed.insert(process);
        else
            ++without_room;
    }
    for (std::uint32_t slot = 0; slot < impl_->record.threads; ++slot) {
        auto *thread = impl_->threads.element<bpf::thread_slot>(slot);
        if (thread->state == bpf::SLOT_LIVE && (thread->untimed || !impl_->untimed.empty()) &&
            impl_->untimed.contains(capture::process_of(*thread)) != (thread->untimed != 0))
            std::atomic_ref(thread->epoch).store(0, std::memory_order_relaxed);
    }
    if (without_room)
        return fail(fmt::format("calls of {} processes still have durations: no room in the map", without_room));
    return {};
}

} // namespace incident::daemon
