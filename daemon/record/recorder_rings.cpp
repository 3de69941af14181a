// Reads the rings of threads through the mappings, and the process table.
#include "daemon/record/recorder_impl.h"
#include "daemon/record/thread_limits.h"
#include "daemon/record/unpack.h"

#include "capture/decode/syscalls.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <iterator>
#include <ranges>

namespace incident::daemon {

namespace {

template <typename Record> void drop_oldest(std::vector<Record> &records, std::uint64_t count) {
    const auto end = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(count, records.size()));
    records.erase(records.begin(), records.begin() + end);
}

// Calls of one thread, gathered from the newest backwards.
class GatheredCalls {
public:
    explicit GatheredCalls(const CallsWanted &wanted) : wanted_(wanted) {}

    bool enough() const { return before_ >= wanted_.before; }
    void add_older(std::vector<bpf::syscall_record> calls) {
        const auto later = std::ranges::upper_bound(calls, wanted_.until_ns, {}, &bpf::syscall_record::start_ns);
        const auto after = static_cast<std::size_t>(calls.end() - later);
        before_ += calls.size() - after;
        after_ += after;
        newest_first_.push_back(std::move(calls));
        // Of one that has gone on for long: what is too new need not be held until the end.
        while (newest_first_.size() > 1 && is_after(newest_first_.front()) &&
               after_ - newest_first_.front().size() >= wanted_.after) {
            after_ -= newest_first_.front().size();
            dropped_ += newest_first_.front().size();
            newest_first_.pop_front();
        }
    }
    // Appends what is wanted, oldest first; returns how many more there were.
    std::uint64_t finish(std::vector<bpf::syscall_record> &to) {
        std::vector<bpf::syscall_record> all;
        all.reserve(before_ + after_);
        for (auto calls = newest_first_.rbegin(); calls != newest_first_.rend(); ++calls)
            all.insert(all.end(), calls->begin(), calls->end());
        const std::size_t too_old = before_ - std::min(before_, wanted_.before);
        const std::size_t too_new = after_ - std::min(after_, wanted_.after);
        to.insert(to.end(), all.begin() + static_cast<std::ptrdiff_t>(too_old),
                  all.end() - static_cast<std::ptrdiff_t>(too_new));
        return dropped_ + too_old + too_new;
    }

private:
    bool is_after(const std::vector<bpf::syscall_record> &calls) const {
        return calls.empty() || calls.front().start_ns > wanted_.until_ns;
    }

    CallsWanted wanted_;
    std::deque<std::vector<bpf::syscall_record>> newest_first_;
    std::size_t before_ = 0, after_ = 0, dropped_ = 0;
};

std::uint64_t completed_at(const bpf::io_request &request) {
    return request.duration_ns < NO_DURATION ? request.t_ns + request.duration_ns : request.t_ns;
}

// Requests are counted as calls are, by when they were completed.  Newest first, and then oldest first; returns how
// many more there were.
std::uint64_t keep_wanted(std::vector<capture::Request> &requests, const CallsWanted &wanted) {
    std::ranges::reverse(requests);
    const auto later = std::ranges::upper_bound(requests, wanted.until_ns, {}, completed_at);
    const auto before = static_cast<std::size_t>(later - requests.begin());
    const std::size_t after = requests.size() - before;
    const std::size_t too_old = before - std::min(before, wanted.before),
                      too_new = after - std::min(after, wanted.after);
    requests.erase(requests.end() - static_cast<std::ptrdiff_t>(too_new), requests.end());
    drop_oldest(requests, too_old);
    return too_old + too_new;
}

// Of the call that the slot has; none if that names no path.
std::optional<PathPiece> path_in_slot(const bpf::thread_slot &thread, const bpf::thread_side &side) {
    const bpf::syscall_record &call = thread.call[(thread.syscalls - 1) & 1];
    // `after` is set a moment after the call has begun
    if (!(thread.after >> CLASS_PATH_SHIFT & CLASS_PATH_MASK) ||
        !capture::path_argument(call.nr, call.flags & bpf::SYSCALL_COMPAT, true))
        return std::nullopt;
    PathPiece piece{.path = {.start_ns = call.start_ns, .status = bpf::PATH_PENDING}};
    piece.path.how_flags = thread.after & CLASS_OPEN_HOW ? side.open_flags : 0;
    if (thread.path_of != static_cast<__u32>(thread.syscalls))
        return piece;
    constexpr std::size_t head = PATH_HEAD_LEN - 1;
    piece.path.bytes.assign(side.path, thread.path_rests ? head : std::min<std::size_t>(thread.path_length, head));
    piece.path.status = thread.path_is_cut ? bpf::PATH_CUT : bpf::PATH_KEPT;
    piece.rests_before = thread.path_rests;
    return piece;
}

// Of the call in flight, where it is the caller who gives one.
std::optional<capture::CallAddress> address_in_flight(const bpf::thread_slot &thread, const bpf::thread_side &side) {
    const unsigned call = thread.after >> CLASS_ADDRESS_SHIFT & CLASS_ADDRESS_MASK;
    if (!thread.in_call || thread.address_of != static_cast<__u32>(thread.syscalls) || !thread.address_length ||
        (call != bpf::ADDRESS_GIVEN && call != bpf::ADDRESS_TO))
        return std::nullopt;
    return capture::CallAddress{thread.call[(thread.syscalls - 1) & 1].start_ns,
                                {side.address, std::min<std::size_t>(thread.address_length, ADDRESS_MAX_LEN)}};
}

// The first `count` calls of those, and what was kept of them: a living thread has gone on since it was looked at.
void keep_first(Unpacked &unpacked, std::size_t count) {
    if (unpacked.calls.size() <= count)
        return;
    unpacked.calls.resize(count);
    const std::uint64_t last_ns = count ? unpacked.calls.back().start_ns : 0;
    const auto is_later = [last_ns](const auto &extra) { return extra.start_ns > last_ns; };
    std::erase_if(unpacked.addresses, is_later);
    std::erase_if(unpacked.events, is_later);
    std::erase_if(unpacked.payloads, is_later);
    // pieces before the first that goes are of the call after the last
    unpacked.paths.erase(std::ranges::find_if(unpacked.paths,
                                              [last_ns](const PathPiece &piece) {
                                                  return !piece.which && piece.path.start_ns > last_ns;
                                              }),
                         unpacked.paths.end());
}

// Nothing that is read below this may be older than what was read above it: the kernel side writes in that order.
void in_this_order() {
    std::atomic_thread_fence(std::memory_order_acquire);
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
    const bpf::thread_slot thread = header(slot);
    return thread.call[(thread.syscalls - 1) & 1];
}

std::uint32_t Recorder::slots() const {
    return impl_->record.threads;
}

// The header with a call in flight that is whole: its place is written over by the next but one.  Of a thread that is
// never seen to rest the call in flight is left out in the end.
bpf::thread_slot Recorder::steady_header(std::uint32_t slot) const {
    constexpr int tries = 8;
    auto *thread = impl_->threads.element<bpf::thread_slot>(slot);
    const std::atomic_ref<__u64> entered(thread->syscalls);
    bpf::thread_slot copy;
    for (int i = 0; i < tries; ++i) {
        const __u64 before = entered.load(std::memory_order_acquire);
        copy = header(slot);
        in_this_order();
        if (copy.syscalls == before && entered.load(std::memory_order_relaxed) == before)
            return copy;
    }
    if (copy.in_call && copy.syscalls) {
        copy.in_call = 0;
        --copy.syscalls;
    }
    return copy;
}

// A copy of a segment of the slot's thread; none if it has been taken out of the chain meanwhile.
std::optional<bpf::call_segment> Recorder::segment(std::uint32_t slot, std::uint32_t index_plus_one) const {
    if (index_plus_one == 0 || index_plus_one > impl_->segments_in_pool)
        return std::nullopt;
    const auto *at = impl_->segments.element<bpf::call_segment>(index_plus_one - 1);
    bpf::call_segment copy;
    const auto serial = std::atomic_ref(const_cast<__u32 &>(at->serial)).load(std::memory_order_acquire);
    copy.filled = std::atomic_ref(const_cast<__u64 &>(at->filled)).load(std::memory_order_acquire);
    std::memcpy(&copy.generation, &at->generation, sizeof(copy) - offsetof(bpf::call_segment, generation));
    in_this_order();
    const auto oldest = impl_->threads.element<bpf::thread_slot>(slot)->oldest;
    if (copy.serial != serial || std::int32_t(serial - static_cast<std::uint32_t>(oldest >> 32)) < 0)
        return std::nullopt;
    return copy;
}

// From the newest segment backwards, until there are enough or an older one is no longer there.
void Recorder::read_calls(std::uint32_t slot, capture::ThreadRings &rings, const CallsWanted &wanted,
                          const bpf::thread_side *side) const {
    const bpf::thread_slot &thread = rings.slot;
    std::vector<PathPiece> paths; // newest first
    const auto add_path_in_slot = [&] {
        if (auto path = side ? path_in_slot(thread, *side) : std::nullopt)
            paths.push_back(std::move(*path));
    };
    bool in_slot = thread.in_call != 0; // the last call is taken from there
    if (in_slot)
        add_path_in_slot();
    std::uint64_t over = thread.syscalls - (in_slot ? 1 : 0); // calls of which the packed form is wanted
    GatheredCalls gathered(wanted);
    std::uint64_t begins = over;
    std::optional<std::uint32_t> newer; // serial of the one before
    for (std::uint32_t at = thread.newest; !gathered.enough();) {
        const auto copy = segment(slot, at);
        // where the chain has ended, prev names one that may be in another by now
        if (!copy || copy->generation != thread.generation || copy->first > begins ||
            (newer && copy->serial != *newer - 1))
            break;
        Unpacked unpacked = unpack(*copy);
        const std::vector<bpf::syscall_record> &calls = unpacked.calls;
        const bool is_newest = !newer;
        newer = copy->serial;
        if (calls.size() != copy->filled >> 32 || (!is_newest && copy->first + calls.size() != begins))
            break;
        if (is_newest) {
            // one whose entry was not seen is counted before it is packed
            if (!in_slot && copy->first + calls.size() + 1 == over) {
                in_slot = true;
                --over;
                add_path_in_slot();
            }
            keep_first(unpacked, over > copy->first ? over - copy->first : 0);
            if (copy->first + calls.size() != over)
                break; // what was over is not here: it found no segment
        }
        begins = copy->first;
        at = copy->prev;
        gathered.add_older(std::move(unpacked.calls));
        std::ranges::move(std::views::reverse(unpacked.paths), std::back_inserter(paths));
        std::ranges::move(std::views::reverse(unpacked.addresses), std::back_inserter(rings.addresses));
        std::ranges::move(std::views::reverse(unpacked.events), std::back_inserter(rings.events));
        std::ranges::move(std::views::reverse(unpacked.payloads), std::back_inserter(rings.payloads));
        std::ranges::move(std::views::reverse(unpacked.requests), std::back_inserter(rings.requests));
    }
    rings.requests_left_out = keep_wanted(rings.requests, wanted);
    rings.calls_left_out = kept_before(slot, thread.generation, begins) + gathered.finish(rings.syscalls);
    std::ranges::reverse(paths);
    std::ranges::reverse(rings.addresses);
    std::ranges::reverse(rings.events);
    std::ranges::reverse(rings.payloads);
    rings.paths = join_paths(std::move(paths));
    if (auto address = side ? address_in_flight(thread, *side) : std::nullopt)
        rings.addresses.push_back(std::move(*address));
    if (in_slot)
        rings.syscalls.push_back(thread.call[(thread.syscalls - 1) & 1]);
    keep_those_of_calls(rings);
}

// How many calls before that one are kept.
std::uint64_t Recorder::kept_before(std::uint32_t slot, std::uint64_t generation, std::uint64_t index) const {
    const auto oldest = impl_->threads.element<bpf::thread_slot>(slot)->oldest;
    const auto copy = segment(slot, static_cast<std::uint32_t>(oldest));
    return copy && copy->generation == generation && copy->first < index ? index - copy->first : 0;
}

std::optional<capture::ThreadRings> Recorder::read(std::uint32_t slot, std::uint64_t generation,
                                                   const CallsWanted &wanted) const {
    if (slot >= impl_->record.threads)
        return std::nullopt;
    capture::ThreadRings rings;
    rings.slot = steady_header(slot);
    if (rings.slot.generation != generation)
        return std::nullopt;

    bpf::thread_side side;
    std::memcpy(&side, impl_->sides.element<bpf::thread_side>(slot), sizeof(side));
    in_this_order();
    const bpf::thread_slot after = header(slot);
    read_calls(slot, rings, wanted, after.syscalls == rings.slot.syscalls ? &side : nullptr);
    const std::uint64_t grown = std::min<std::uint64_t>(rings.slot.memory_events, MEMORY_RECORDS);
    for (std::uint64_t index = rings.slot.memory_events - grown; index < rings.slot.memory_events; ++index)
        rings.memory.push_back(side.memory[index & (MEMORY_RECORDS - 1)]);
    // A living thread goes on writing: what it may have overwritten meanwhile is left out.
    drop_oldest(rings.memory, grown == MEMORY_RECORDS ? after.memory_events - rings.slot.memory_events : 0);
    if (header(slot).generation != generation)
        return std::nullopt;
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
