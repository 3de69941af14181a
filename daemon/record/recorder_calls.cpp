// Reads the calls of a thread, and what was kept of them, out of its segments.
#include "daemon/record/recorder_impl.h"
#include "daemon/record/thread_limits.h"
#include "daemon/record/unpack.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <ranges>

namespace incident::daemon {

namespace {

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
    requests.erase(requests.begin(), requests.begin() + static_cast<std::ptrdiff_t>(too_old));
    return too_old + too_new;
}

const bpf::syscall_record &call_in_slot(const bpf::thread_slot &thread) {
    return thread.call[(thread.syscalls - 1) & 1];
}

// Of the call that the slot has; none if that names no path.  call_class: of that call.
std::optional<PathPiece> path_in_slot(const bpf::thread_slot &thread, const bpf::thread_side &side,
                                      std::uint32_t call_class) {
    const bpf::syscall_record &call = call_in_slot(thread);
    if (!(call_class >> CLASS_PATH_SHIFT & CLASS_PATH_MASK))
        return std::nullopt;
    PathPiece piece{.path = {.start_ns = call.start_ns, .status = bpf::PATH_PENDING}};
    piece.path.how_flags = call_class & CLASS_OPEN_HOW ? side.open_flags : 0;
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
    return capture::CallAddress{call_in_slot(thread).start_ns,
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

} // namespace

// From the newest segment backwards, until there are enough or an older one is no longer there.
void Recorder::read_calls(std::uint32_t slot, capture::ThreadRings &rings, const CallsWanted &wanted,
                          const bpf::thread_side *side) const {
    const bpf::thread_slot &thread = rings.slot;
    std::vector<PathPiece> paths; // newest first
    const auto add_path_in_slot = [&] {
        const bpf::syscall_record &call = call_in_slot(thread);
        // and not thread.after, which is set a moment after the call has begun
        const auto &classes = impl_->skeleton->rodata->syscall_class[call.flags & bpf::SYSCALL_COMPAT ? 1 : 0];
        const auto its_class = static_cast<std::uint32_t>(classes[call.nr & (SYSCALL_CLASSES - 1)]);
        if (auto path = side ? path_in_slot(thread, *side, its_class) : std::nullopt)
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
            // one whose entry was not seen is counted before it is packed; one that found no segment counts as lost
            if (!in_slot && !thread.unkept && copy->first + calls.size() + 1 == over) {
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
        rings.syscalls.push_back(call_in_slot(thread));
    keep_those_of_calls(rings);
}

// How many calls before that one are kept.
std::uint64_t Recorder::kept_before(std::uint32_t slot, std::uint64_t generation, std::uint64_t index) const {
    const auto oldest = impl_->threads.element<bpf::thread_slot>(slot)->oldest;
    const auto copy = segment(slot, static_cast<std::uint32_t>(oldest));
    return copy && copy->generation == generation && copy->first < index ? index - copy->first : 0;
}

} // namespace incident::daemon
