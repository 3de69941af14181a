#include "daemon/watch/heap/heap_snapshot.h"

#include <algorithm>
#include <cstring>

namespace incident::daemon {

namespace {

capture::HeapSums sums_of(const bpf::heap_sums &sums) {
    return {sums.allocations, sums.allocated_bytes, sums.frees, sums.freed_bytes};
}

// Counters only grow, but their writers do not stop for the reader: a difference below zero is none.
std::uint64_t elapsed(std::uint64_t now, std::uint64_t then) {
    return now - std::min(now, then);
}

capture::HeapSums elapsed(const bpf::heap_sums &now, const bpf::heap_sums &then) {
    return {elapsed(now.allocations, then.allocations), elapsed(now.allocated_bytes, then.allocated_bytes),
            elapsed(now.frees, then.frees), elapsed(now.freed_bytes, then.freed_bytes)};
}

// The first checkpoint at or after that epoch: between the epoch's beginning and it nothing happened.
// -1: nothing has happened since.
int checkpoint_from(const bpf::heap_checkpoint (&checkpoints)[HEAP_EPOCHS], std::uint64_t epoch) {
    int best = -1;
    for (int i = 0; i < HEAP_EPOCHS; ++i)
        if (checkpoints[i].epoch >= epoch && checkpoints[i].epoch &&
            (best < 0 || checkpoints[i].epoch < checkpoints[best].epoch))
            best = i;
    return best;
}

capture::HeapStackRecord stack_of(std::uint64_t id, const bpf::heap_stack &stack, std::uint64_t from_epoch) {
    capture::HeapStackRecord record;
    record.id = id;
    record.total = sums_of(stack.sums);
    if (const int i = checkpoint_from(stack.checkpoint, from_epoch); i >= 0)
        record.window = elapsed(stack.sums, stack.checkpoint[i].sums);
    record.first_ns = stack.first_ns;
    record.ip = stack.ip;
    record.sp = stack.sp;
    record.bp = stack.bp;
    record.bx = stack.bx;
    record.r12 = stack.r12;
    record.r13 = stack.r13;
    record.r14 = stack.r14;
    record.r15 = stack.r15;
    record.length = std::min<std::uint32_t>(stack.length, HEAP_SLICE);
    record.function = stack.function;
    std::memcpy(record.slice, stack.slice, sizeof(record.slice));
    return record;
}

void add_history(const HeapReading &reading, capture::HeapSnapshot &heap) {
    const auto &history = reading.history;
    for (const auto &record : history)
        if (record.t_ns >= reading.history_since_ns) // what is older has a gap behind it
            heap.history.push_back({record.t_ns, record.address, record.size, record.stack, record.tid, record.kind,
                                    record.function, record.flags, 0});
    // A realloc's free is written long after its time; of the others the place says the time.
    const auto oldest =
        std::ranges::find_if(history, [](const auto &record) { return record.kind == bpf::HEAP_ALLOCATED; });
    const bool all = reading.account.history_next <= reading.account.history_mask + 1;
    heap.history_from_ns = all ? heap.since_ns : oldest != history.end() ? oldest->t_ns : reading.read_ns;
    heap.history_from_ns = std::max(heap.history_from_ns, reading.history_since_ns);
    std::ranges::stable_sort(heap.history, {}, &capture::HeapHistoryRecord::t_ns);
}

} // namespace

void add_reading(const HeapReading &reading, capture::HeapSnapshot &heap) {
    const auto &account = reading.account;
    heap.read_ns = reading.read_ns;
    const std::uint64_t shift = account.epoch_shift & 63, now = reading.read_ns >> shift,
                        wanted = (reading.window_ns + (1ull << shift) - 1) >> shift,
                        from = now - std::min({now, wanted, epochs_a_window});
    heap.window_from_ns = std::max(from << shift, heap.since_ns);
    heap.total = sums_of(account.sums);
    const int then = checkpoint_from(account.checkpoint, from);
    if (then >= 0)
        heap.window = elapsed(account.sums, account.checkpoint[then].sums);
    for (int i = 0; i < HEAP_CLASSES; ++i) {
        const auto &size = account.sizes[i];
        heap.sizes[i] = {size.allocations, size.bytes};
        if (then >= 0)
            heap.sizes_in_window[i] = {elapsed(size.allocations, account.sizes_then[then][i].allocations),
                                       elapsed(size.bytes, account.sizes_then[then][i].bytes)};
    }
    // What lives follows from the account; the table of a process that goes on has changed since.
    heap.live = elapsed(account.sums.allocations, account.sums.frees + account.reused + account.lost);
    heap.live_bytes =
        elapsed(account.sums.allocated_bytes, account.sums.freed_bytes + account.reused_bytes + account.lost_bytes);
    heap.reused = account.reused;
    heap.reused_bytes = account.reused_bytes;
    heap.lost = account.lost;
    heap.lost_bytes = account.lost_bytes;
    heap.unknown_frees = account.unknown_frees;
    heap.failed = account.failed;
    heap.unfinished = account.unfinished;
    heap.unentered = account.unentered;
    heap.no_frame = account.no_frame;
    heap.no_stack = account.no_stack;
    heap.strangers = account.strangers;
    for (const auto &[id, stack] : reading.stacks)
        heap.stacks.push_back(stack_of(id, stack, from));
    std::ranges::sort(heap.stacks, {}, &capture::HeapStackRecord::id);
    for (const auto &[address, allocation] : reading.live)
        heap.allocations.push_back(
            {address, allocation.size, allocation.stack, allocation.t_ns, allocation.tid, allocation.function});
    std::ranges::sort(heap.allocations, {}, &capture::HeapLiveRecord::address);
    if (account.history_mask != ~0ull) {
        heap.history_written = account.history_next;
        add_history(reading, heap);
    }
}

} // namespace incident::daemon
