#include "daemon/record/unpack.h"

#include "bpf/packed.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace incident::daemon {

namespace {

class Words {
public:
    explicit Words(std::span<const __u32> words) : words_(words) {}

    std::uint64_t next() {
        if (at_ >= words_.size()) {
            short_ = true;
            return 0;
        }
        return words_[at_++];
    }
    // 0: there is none.
    std::uint64_t peek() const { return at_ < words_.size() ? words_[at_] : 0; }
    std::string bytes(std::size_t length) {
        const std::size_t count = (length + sizeof(__u32) - 1) / sizeof(__u32);
        if (count > words_.size() - at_) {
            short_ = true;
            return {};
        }
        std::string copy(reinterpret_cast<const char *>(words_.data() + at_), length);
        at_ += count;
        return copy;
    }
    std::uint64_t next_if(bool there) { return there ? next() : 0; }
    std::uint64_t wide(bool low, bool high) {
        const std::uint64_t value = next_if(low);
        return value | next_if(high) << 32;
    }
    bool ended_short() const { return short_; }

private:
    std::span<const __u32> words_;
    std::size_t at_ = 0;
    bool short_ = false;
};

std::uint64_t duration_of(Words &words, std::uint64_t head) {
    if (head & PACKED_UNTIMED)
        return NO_DURATION;
    return words.wide(true, (head & PACKED_LONG) != 0);
}

__s32 number_of(Words &words, std::uint64_t head) {
    const std::uint64_t number = head & PACKED_NUMBER_MASK;
    return static_cast<__s32>(static_cast<__u32>(head & PACKED_NUMBER ? words.next() : number));
}

__s64 result_of(Words &words, std::uint64_t head) {
    const std::uint64_t low = words.next_if((head & PACKED_RESULT) != 0);
    if (head & PACKED_WIDE_RESULT)
        return std::bit_cast<__s64>(low | words.next() << 32);
    return static_cast<__s32>(static_cast<__u32>(low));
}

std::optional<bpf::io_request> unpack_request(Words &words, std::uint64_t head) {
    std::array<__u32, REQUEST_WORDS> all{};
    for (unsigned i = 0; i < REQUEST_WORDS; ++i)
        all[i] = static_cast<__u32>(words.next_if((head >> i & 1) != 0));
    return words.ended_short() ? std::nullopt : std::optional(std::bit_cast<bpf::io_request>(all));
}

PathPiece unpack_path(Words &words, std::uint64_t head, std::uint64_t start_ns) {
    PathPiece piece;
    piece.path.start_ns = start_ns;
    piece.path.status = static_cast<bpf::path_status>(head >> PACKED_PATH_STATUS_SHIFT & PACKED_PATH_STATUS_MASK);
    piece.path.how_flags = words.wide((head & PACKED_PATH_HOW) != 0, (head & PACKED_PATH_HOW) != 0);
    piece.path.bytes = words.bytes(head & PACKED_EXTRA_LENGTH);
    piece.rests_before = head >> PACKED_PATH_RESTS_SHIFT & PACKED_PATH_RESTS_MASK;
    return piece;
}

// What stands behind the call that began then, or before the first.
void unpack_extras(Words &words, std::uint64_t start_ns, Unpacked &unpacked) {
    while (words.peek() & PACKED_EXTRA) {
        const std::uint64_t head = words.next();
        const auto kind = head >> PACKED_EXTRA_KIND_SHIFT & PACKED_EXTRA_KIND_MASK;
        if (kind == PACKED_REQUEST) {
            if (const auto request = unpack_request(words, head))
                unpacked.requests.push_back({*request, {}});
            continue;
        }
        if (kind == PACKED_PATH) {
            if (PathPiece piece = unpack_path(words, head, start_ns); !words.ended_short())
                unpacked.paths.push_back(std::move(piece));
            continue;
        }
        std::string bytes = words.bytes(head & PACKED_EXTRA_LENGTH);
        if (words.ended_short())
            return;
        if (kind == PACKED_ADDRESS)
            unpacked.addresses.push_back({start_ns, std::move(bytes)});
        else if (kind == PACKED_EVENTS)
            unpacked.events.push_back({start_ns, std::move(bytes)});
        else if (kind == PACKED_PAYLOAD)
            unpacked.payloads.push_back({start_ns, std::move(bytes)});
        else if (kind == PACKED_PATH_REST)
            unpacked.paths.push_back(
                {.path = {.bytes = std::move(bytes)},
                 .which = static_cast<unsigned>(head >> PACKED_PATH_REST_SHIFT & PACKED_PATH_REST_MASK)});
        else if (kind == PACKED_REQUEST_PATH && !unpacked.requests.empty())
            unpacked.requests.back().path = bytes.substr(0, bytes.find('\0'));
    }
}

} // namespace

Unpacked unpack(const bpf::call_segment &segment) {
    const std::uint64_t filled = segment.filled;
    Words words({segment.words, std::min<std::size_t>(static_cast<__u32>(filled), SEGMENT_WORDS)});
    const std::uint64_t count = filled >> 32;
    Unpacked unpacked;
    auto &calls = unpacked.calls;
    calls.reserve(std::min<std::uint64_t>(count, SEGMENT_WORDS));
    std::uint64_t began = segment.start_ns;
    unpack_extras(words, began, unpacked);
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t head = words.next();
        bpf::syscall_record call{};
        began += words.wide(true, (head & PACKED_LONG_AGO) != 0);
        const std::uint64_t duration = duration_of(words, head);
        if (head & PACKED_AGAIN) {
            if (calls.empty())
                break;
            call = calls.back();
        } else {
            call.flags = static_cast<__u32>((head & PACKED_COMPAT ? bpf::SYSCALL_COMPAT : 0) |
                                            (head & PACKED_ARGS_GONE ? bpf::SYSCALL_ARGS_GONE : 0));
            call.nr = number_of(words, head);
            call.ret = result_of(words, head);
            for (unsigned which = 0; which < SYSCALL_ARGS; ++which)
                call.args[which] =
                    words.wide((head >> (PACKED_LOW + which) & 1) != 0, (head >> (PACKED_HIGH + which) & 1) != 0);
        }
        if (words.ended_short())
            break;
        call.start_ns = began;
        call.duration_ns = duration;
        calls.push_back(call);
        unpack_extras(words, call.start_ns, unpacked);
    }
    return unpacked;
}

std::vector<capture::CallPath> join_paths(std::vector<PathPiece> pieces) {
    std::vector<capture::CallPath> paths;
    std::string rests;
    unsigned have = 0; // so many of them, without a gap from the first on
    for (PathPiece &piece : pieces) {
        if (piece.which == 1) // of a call that has been read again, or whose beginning is not here
            rests.clear(), have = 0;
        if (piece.which) {
            const bool fits = piece.which == have + 1;
            rests = fits ? rests + piece.path.bytes : std::string();
            have = fits ? piece.which : 0;
            continue;
        }
        if (piece.rests_before && piece.rests_before == have)
            piece.path.bytes += rests;
        else if (piece.rests_before)
            piece.path.status = bpf::PATH_CUT;
        if (piece.path.bytes.size() >= PATH_MAX_LEN)
            piece.path.bytes.resize(PATH_MAX_LEN - 1);
        paths.push_back(std::move(piece.path));
        rests.clear(), have = 0;
    }
    return paths;
}

} // namespace incident::daemon
