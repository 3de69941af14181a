// Packed calls, by words made by hand.  That the kernel side packs so is tested with real calls: calls_kernel_test.cpp.
#include "bpf/packed.h"
#include "daemon/record/unpack.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <random>

namespace incident::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

bpf::call_segment segment_with(std::uint64_t calls, const std::vector<__u32> &words) {
    bpf::call_segment segment{};
    segment.start_ns = 1000;
    segment.filled = calls << 32 | words.size();
    std::ranges::copy(words, segment.words);
    return segment;
}

constexpr __u32 low_of(unsigned i) {
    return 1u << (PACKED_LOW + i);
}
constexpr __u32 high_of(unsigned i) {
    return 1u << (PACKED_HIGH + i);
}

TEST(Unpack, ASmallCall) {
    const auto calls = unpack(segment_with(1, {39 | PACKED_RESULT, 5, 70, 4321})).calls;
    ASSERT_THAT(calls, SizeIs(1));
    EXPECT_EQ(calls[0].nr, 39);
    EXPECT_EQ(calls[0].start_ns, 1005u);
    EXPECT_EQ(calls[0].duration_ns, 70u);
    EXPECT_EQ(calls[0].ret, 4321);
    EXPECT_EQ(calls[0].flags, 0u);
    EXPECT_THAT(calls[0].args, ElementsAre(0, 0, 0, 0, 0, 0));
}

TEST(Unpack, EverythingThatIsLong) {
    const __u32 head = PACKED_NUMBER | PACKED_COMPAT | PACKED_LONG_AGO | PACKED_LONG | PACKED_RESULT |
                       PACKED_WIDE_RESULT | low_of(0) | high_of(0) | high_of(3) | low_of(5);
    const auto calls = unpack(segment_with(1, {head, 5, 1, 7, 2, 100'000, 3, 4, 0xa0, 0xa1, 0xd1, 0xf0})).calls;
    ASSERT_THAT(calls, SizeIs(1));
    EXPECT_EQ(calls[0].nr, 100'000);
    EXPECT_EQ(calls[0].start_ns, 1005u + (1ull << 32));
    EXPECT_EQ(calls[0].duration_ns, 7u + (2ull << 32));
    EXPECT_EQ(calls[0].ret, 3 + (4ll << 32));
    EXPECT_EQ(calls[0].flags, bpf::SYSCALL_COMPAT);
    EXPECT_THAT(calls[0].args, ElementsAre(0xa0 + (0xa1ull << 32), 0, 0, 0xd1ull << 32, 0, 0xf0));
}

TEST(Unpack, AnErrorTakesOneWord) {
    EXPECT_EQ(unpack(segment_with(1, {PACKED_RESULT, 0, 1, static_cast<__u32>(-11)})).calls[0].ret, -11);
}

TEST(Unpack, TheSameAgain) {
    const auto calls = unpack(segment_with(3, {1 | PACKED_RESULT | low_of(0), 5, 70, 8, 3, PACKED_AGAIN, 20, 71,
                                               PACKED_AGAIN, 30, 72}))
                           .calls;
    ASSERT_THAT(calls, SizeIs(3));
    for (const auto &call : calls) {
        EXPECT_EQ(call.nr, 1);
        EXPECT_EQ(call.ret, 8);
        EXPECT_EQ(call.args[0], 3u);
    }
    EXPECT_EQ(calls[2].start_ns, 1055u);
    EXPECT_EQ(calls[1].duration_ns, 71u);
    EXPECT_EQ(calls[2].duration_ns, 72u);
}

TEST(Unpack, NoDuration) {
    const auto calls =
        unpack(segment_with(2, {PACKED_UNTIMED | PACKED_ARGS_GONE, 5, PACKED_UNTIMED | PACKED_AGAIN, 6})).calls;
    ASSERT_THAT(calls, SizeIs(2));
    EXPECT_EQ(calls[0].duration_ns, NO_DURATION);
    EXPECT_EQ(calls[0].flags, bpf::SYSCALL_ARGS_GONE);
    EXPECT_EQ(calls[1].duration_ns, NO_DURATION);
    EXPECT_EQ(calls[1].start_ns, 1011u);
}

TEST(Unpack, WhatIsNotWholeIsLeftOut) {
    EXPECT_THAT(unpack(segment_with(2, {39 | PACKED_RESULT, 5, 70, 4321, 39 | PACKED_RESULT, 5, 70})).calls, SizeIs(1));
    EXPECT_THAT(unpack(segment_with(1, {PACKED_AGAIN, 5, 70})).calls, IsEmpty());
    EXPECT_THAT(unpack(segment_with(0, {})).calls, IsEmpty());
}

constexpr __u32 path_of(bpf::path_status status, unsigned rests, unsigned bytes) {
    return PACKED_EXTRA | PACKED_PATH << PACKED_EXTRA_KIND_SHIFT | __u32(status) << PACKED_PATH_STATUS_SHIFT |
           rests << PACKED_PATH_RESTS_SHIFT | bytes;
}

constexpr __u32 rest_of_path(unsigned which, unsigned bytes) {
    return PACKED_EXTRA | PACKED_PATH_REST << PACKED_EXTRA_KIND_SHIFT | which << PACKED_PATH_REST_SHIFT | bytes;
}

TEST(Unpack, APathStandsBehindItsCall) {
    const __u32 with_flags = path_of(bpf::PATH_KEPT, 0, 2) | PACKED_PATH_HOW;
    const auto unpacked = unpack(
        segment_with(3, {2, 5, 70, path_of(bpf::PATH_KEPT, 0, 3), 0x636261, 2, 5, 70, path_of(bpf::PATH_FAULT, 0, 0),
                         437 | PACKED_RESULT, 5, 70, 3, with_flags, 0x80000, 1, 0x7a79}));
    ASSERT_THAT(unpacked.calls, SizeIs(3));
    const auto paths = join_paths(unpacked.paths);
    ASSERT_THAT(paths, SizeIs(3));
    for (std::size_t i = 0; i < paths.size(); ++i)
        EXPECT_EQ(paths[i].start_ns, unpacked.calls[i].start_ns);
    EXPECT_EQ(paths[0].bytes, "abc");
    EXPECT_TRUE(paths[0].kept());
    EXPECT_EQ(paths[1].bytes, "");
    EXPECT_EQ(paths[1].status, bpf::PATH_FAULT);
    EXPECT_EQ(paths[2].bytes, "yz");
    EXPECT_EQ(paths[2].how_flags, 0x80000 + (1ull << 32));
    // one that goes on beyond the words is none
    EXPECT_THAT(unpack(segment_with(1, {2, 5, 70, path_of(bpf::PATH_KEPT, 0, 5), 0x636261})).paths, IsEmpty());
}

TEST(Unpack, ALongPathIsJoined) {
    const __u32 text = 0x636261, more = 0x7a79;
    // before its call, as it was read; in two segments
    auto pieces = unpack(segment_with(0, {rest_of_path(1, 3), text})).paths;
    std::ranges::copy(
        unpack(segment_with(1, {rest_of_path(2, 2), more, 2, 5, 70, path_of(bpf::PATH_KEPT, 2, 2), more})).paths,
        std::back_inserter(pieces));
    auto paths = join_paths(pieces);
    ASSERT_THAT(paths, SizeIs(1));
    EXPECT_EQ(paths[0].bytes, "yzabcyz");
    EXPECT_TRUE(paths[0].kept());
    // the segment of its first piece is gone
    pieces.erase(pieces.begin());
    paths = join_paths(pieces);
    ASSERT_THAT(paths, SizeIs(1));
    EXPECT_EQ(paths[0].bytes, "yz");
    EXPECT_EQ(paths[0].status, bpf::PATH_CUT);
}

TEST(Unpack, PiecesOfAnotherPathAreNotItsOwn) {
    const auto paths = join_paths(
        unpack(segment_with(2, {rest_of_path(1, 1), 0x61, rest_of_path(2, 1), 0x62, // of one that never returned
                                2, 5, 70, path_of(bpf::PATH_KEPT, 0, 1), 0x78,      // short
                                rest_of_path(1, 1), 0x63, rest_of_path(1, 1), 0x64, // read again
                                2, 5, 70, path_of(bpf::PATH_KEPT, 1, 1), 0x79}))
            .paths);
    ASSERT_THAT(paths, SizeIs(2));
    EXPECT_EQ(paths[0].bytes, "x");
    EXPECT_EQ(paths[1].bytes, "yd");
}

TEST(Unpack, AnAddressStandsBehindItsCall) {
    const __u32 address_of_3_bytes = PACKED_EXTRA | PACKED_ADDRESS << PACKED_EXTRA_KIND_SHIFT | 3;
    const auto unpacked = unpack(segment_with(
        3, {42, 5, 70, address_of_3_bytes, 0x636261, PACKED_AGAIN, 20, 71, 39 | PACKED_RESULT, 5, 70, 4321}));
    ASSERT_THAT(unpacked.calls, SizeIs(3));
    EXPECT_EQ(unpacked.calls[2].ret, 4321);
    ASSERT_THAT(unpacked.addresses, SizeIs(1));
    EXPECT_EQ(unpacked.addresses[0].start_ns, unpacked.calls[0].start_ns);
    EXPECT_EQ(unpacked.addresses[0].bytes, "abc");
    // one that goes on beyond the words is none
    EXPECT_THAT(unpack(segment_with(1, {42, 5, 70, address_of_3_bytes})).addresses, IsEmpty());
}

TEST(Unpack, EventsStandBehindTheirCall) {
    const __u32 event = PACKED_EXTRA | PACKED_EVENTS << PACKED_EXTRA_KIND_SHIFT | EPOLL_EVENT_BYTES;
    const auto unpacked = unpack(segment_with(1, {42, 5, 70, event, 1, 5, 0}));
    ASSERT_THAT(unpacked.events, SizeIs(1));
    EXPECT_EQ(unpacked.events[0].start_ns, unpacked.calls[0].start_ns);
    EXPECT_EQ(unpacked.events[0].bytes, std::string("\1\0\0\0\5\0\0\0\0\0\0\0", 12));
    EXPECT_THAT(unpacked.addresses, IsEmpty());
}

TEST(Unpack, APayloadStandsBehindItsCallAndItsAddress) {
    const __u32 address = PACKED_EXTRA | PACKED_ADDRESS << PACKED_EXTRA_KIND_SHIFT | 2;
    const __u32 payload = PACKED_EXTRA | PACKED_PAYLOAD << PACKED_EXTRA_KIND_SHIFT | 3;
    const auto unpacked = unpack(segment_with(1, {42, 5, 70, address, 1, payload, 0x636261}));
    EXPECT_THAT(unpacked.addresses, SizeIs(1));
    ASSERT_THAT(unpacked.payloads, SizeIs(1));
    EXPECT_EQ(unpacked.payloads[0].start_ns, unpacked.calls[0].start_ns);
    EXPECT_EQ(unpacked.payloads[0].bytes, "abc");
}

TEST(Unpack, RequestsStandBetweenCallsAndBeforeTheFirst) {
    constexpr __u32 request = PACKED_EXTRA | PACKED_REQUEST << PACKED_EXTRA_KIND_SHIFT;
    constexpr __u32 path = PACKED_EXTRA | PACKED_REQUEST_PATH << PACKED_EXTRA_KIND_SHIFT;
    // words 0 and 4: t_ns and user_data; 15: the code
    const auto unpacked = unpack(segment_with(1, {request | 1 | 1 << 4 | 1 << 15, 11, 12, 22, path | 4, 0x636261, 39, 5,
                                                  70, request | 1, 33, path | 4, 0x7a}));
    ASSERT_THAT(unpacked.calls, SizeIs(1));
    EXPECT_EQ(unpacked.calls[0].nr, 39);
    ASSERT_THAT(unpacked.requests, SizeIs(2));
    EXPECT_EQ(unpacked.requests[0].t_ns, 11u);
    EXPECT_EQ(unpacked.requests[0].user_data, 12u);
    EXPECT_EQ(unpacked.requests[0].code, 22u);
    EXPECT_EQ(unpacked.requests[0].path, "abc");
    EXPECT_EQ(unpacked.requests[1].t_ns, 33u);
    EXPECT_EQ(unpacked.requests[1].path, "z");
    // without a request before it, a path is nobody's; one that goes on beyond the words is none
    EXPECT_THAT(unpack(segment_with(0, {path | 4, 0x636261})).requests, IsEmpty());
    EXPECT_THAT(unpack(segment_with(0, {request | 0xffff, 1, 2, 3})).requests, IsEmpty());
}

TEST(Unpack, AnyWordsAreRead) {
    std::mt19937 random(1); // NOLINT(cert-msc32-c,cert-msc51-cpp): the same words each time
    for (int i = 0; i < 1000; ++i) {
        bpf::call_segment segment{};
        for (auto &word : segment.words)
            word = static_cast<__u32>(random());
        segment.filled = static_cast<std::uint64_t>(random()) << 32 | random();
        EXPECT_LE(unpack(segment).calls.size(), std::size_t{SEGMENT_WORDS});
    }
}

} // namespace
} // namespace incident::daemon
