#include "daemon/watch/heap/heap_snapshot.h"

#include <gtest/gtest.h>

namespace incident::daemon {
namespace {

constexpr std::uint64_t shift = 30, epoch = 1ull << shift; // about a second

bpf::heap_sums sums(std::uint64_t allocations, std::uint64_t bytes, std::uint64_t frees, std::uint64_t freed) {
    return {allocations, bytes, frees, freed};
}

HeapReading reading_at(std::uint64_t now) {
    HeapReading reading;
    reading.account.epoch_shift = shift;
    reading.account.history_mask = ~0ull;
    reading.read_ns = now;
    reading.window_ns = 4 * epoch;
    return reading;
}

capture::HeapSnapshot made(const HeapReading &reading, std::uint64_t since = 0) {
    capture::HeapSnapshot heap;
    heap.since_ns = since;
    add_reading(reading, heap);
    return heap;
}

TEST(HeapSnapshot, AccountAddsUp) {
    auto reading = reading_at(100 * epoch);
    reading.account.sums = sums(100, 10000, 60, 6000);
    reading.account.reused = 5;
    reading.account.reused_bytes = 500;
    reading.account.lost = 7;
    reading.account.lost_bytes = 700;
    const auto heap = made(reading);
    EXPECT_EQ(heap.live, 100u - 60 - 5 - 7);
    EXPECT_EQ(heap.live_bytes, 10000u - 6000 - 500 - 700);
    EXPECT_EQ(heap.total, (capture::HeapSums{100, 10000, 60, 6000}));
}

TEST(HeapSnapshot, WindowIsTheDifferenceToWhatWasWhenItBegan) {
    auto reading = reading_at(100 * epoch + 5);
    reading.account.sums = sums(100, 10000, 60, 6000);
    reading.account.checkpoint[95 % HEAP_EPOCHS] = {95, sums(10, 1000, 0, 0)}; // before the window
    reading.account.checkpoint[97 % HEAP_EPOCHS] = {97, sums(40, 4000, 20, 2000)};
    reading.account.checkpoint[100 % HEAP_EPOCHS] = {100, sums(90, 9000, 50, 5000)};
    reading.account.sizes[5] = {100, 10000};
    reading.account.sizes_then[97 % HEAP_EPOCHS][5] = {40, 4000};
    const auto heap = made(reading);
    EXPECT_EQ(heap.window_from_ns, 96 * epoch); // 4 epochs, and what of this one has passed
    EXPECT_EQ(heap.window, (capture::HeapSums{60, 6000, 40, 4000}));
    EXPECT_EQ(heap.sizes_in_window[5].allocations, 60u);
}

TEST(HeapSnapshot, WhereNothingHappenedLatelyTheWindowIsEmpty) {
    auto reading = reading_at(100 * epoch);
    reading.account.sums = sums(100, 10000, 60, 6000);
    reading.account.checkpoint[3] = {3, sums(0, 0, 0, 0)};
    bpf::heap_stack stack{};
    stack.sums = sums(9, 90, 1, 10);
    stack.checkpoint[2] = {2, {}};
    reading.stacks = {{0x11, stack}};
    const auto heap = made(reading);
    EXPECT_EQ(heap.window, capture::HeapSums{});
    ASSERT_EQ(heap.stacks.size(), 1u);
    EXPECT_EQ(heap.stacks[0].window, capture::HeapSums{});
    EXPECT_EQ(heap.stacks[0].total.allocations, 9u);
}

TEST(HeapSnapshot, WindowDoesNotBeginBeforeTheRecording) {
    auto reading = reading_at(100 * epoch);
    EXPECT_EQ(made(reading, 99 * epoch + 7).window_from_ns, 99 * epoch + 7);
}

bpf::heap_record record(std::uint64_t t, std::uint64_t address, std::uint8_t kind, std::uint64_t seq) {
    bpf::heap_record made{};
    made.t_ns = t;
    made.address = address;
    made.kind = kind;
    made.seq = seq;
    return made;
}

TEST(HeapSnapshot, HistoryReachesToItsOldestRecordOrToTheBeginning) {
    auto reading = reading_at(100 * epoch);
    reading.account.history_mask = 3;
    reading.account.history_next = 3;
    reading.history = {record(50, 1, bpf::HEAP_ALLOCATED, 1), record(60, 2, bpf::HEAP_ALLOCATED, 2),
                       record(55, 1, bpf::HEAP_FREED, 3)}; // of a realloc: written when it returned
    auto heap = made(reading, 40);
    EXPECT_EQ(heap.history_from_ns, 40u);
    ASSERT_EQ(heap.history.size(), 3u);
    EXPECT_EQ(heap.history[1].t_ns, 55u);
    reading.account.history_next = 9;
    heap = made(reading, 40);
    EXPECT_EQ(heap.history_from_ns, 50u);
    EXPECT_EQ(heap.history_written, 9u);
}

TEST(HeapSnapshot, HistoryThatWasLeftOutForAWhileBeginsWhereItWasKeptAgain) {
    auto reading = reading_at(100 * epoch);
    reading.account.history_mask = 3;
    reading.account.history_next = 3;
    reading.history = {record(50, 1, bpf::HEAP_ALLOCATED, 1), record(60, 2, bpf::HEAP_ALLOCATED, 2),
                       record(70, 2, bpf::HEAP_FREED, 3)};
    reading.history_since_ns = 58;
    const auto heap = made(reading, 40);
    EXPECT_EQ(heap.history_from_ns, 58u) << "frees of before may be missing";
    ASSERT_EQ(heap.history.size(), 2u);
    EXPECT_EQ(heap.history.front().t_ns, 60u);
}

TEST(HeapSnapshot, LevelSizesHasNoHistory) {
    const auto heap = made(reading_at(100 * epoch), 40);
    EXPECT_EQ(heap.history_from_ns, 0u);
    EXPECT_TRUE(heap.history.empty());
}

TEST(EpochShift, MakesEpochsAsShortAsTheWindowAllows) {
    for (const std::uint64_t window : {1'000'000'000ull, 10'000'000'000ull, 3'600'000'000'000ull}) {
        const auto made = epoch_shift(window);
        EXPECT_GE(epochs_a_window << made, window);
        EXPECT_LT(epochs_a_window << (made - 1), window);
    }
}

} // namespace
} // namespace incident::daemon
