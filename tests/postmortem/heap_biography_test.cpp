// Biographies of pointers out of records made by hand.
#include "heap_lab.h"
#include "postmortem/heap/double_free.h"

#include <gmock/gmock.h>

namespace incident::postmortem::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Where = Biography::Where;

TEST(HeapBiography, ALiveAllocation) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64);
    EXPECT_EQ(lab.told(0x5000), "the start of an allocation of 64 bytes, alive\n"
                                "allocated by stack 1, in thread 100, 9.00 µs before");
    EXPECT_EQ(lab.told(0x5010), "16 bytes into an allocation of 64 bytes at 0x5000, alive\n"
                                "allocated by stack 1, in thread 100, 9.00 µs before");
    EXPECT_EQ(lab.at(0x503f).where, Where::inside);
    EXPECT_EQ(lab.at(0x503f).offset, 63u);
}

TEST(HeapBiography, Freed) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).free(4000, 0x5000, 2, 101);
    EXPECT_EQ(lab.told(0x5008), "8 bytes into an allocation of 64 bytes at 0x5000, freed 6.00 µs before\n"
                                "allocated by stack 1, in thread 100, 9.00 µs before\n"
                                "freed by stack 2, in thread 101, 6.00 µs before");
    EXPECT_TRUE(lab.at(0x5008).inside_freed());
}

TEST(HeapBiography, PastTheEndAndBeforeTheStart) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 24);
    EXPECT_THAT(lab.told(0x5018), HasSubstr("the first byte past the end of an allocation of 24 bytes at 0x5000"));
    EXPECT_THAT(lab.told(0x501b), HasSubstr("3 bytes past the end of an allocation of 24 bytes"));
    EXPECT_EQ(lab.at(0x5018 + heap_near - 1).where, Where::past);
    EXPECT_EQ(lab.at(0x5018 + heap_near).where, Where::unknown);
    EXPECT_THAT(lab.told(0x4fff), HasSubstr("1 byte before the start of an allocation of 24 bytes"));
    EXPECT_EQ(lab.at(0x5000 - heap_near + 1).where, Where::before);
    EXPECT_EQ(lab.at(0x5000 - heap_near).where, Where::unknown);
}

TEST(HeapBiography, BetweenTwoThePastOneIsToldAndTheOtherNamed) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 24).malloc(1100, 0x5020, 24);
    const Biography between = lab.at(0x501a);
    EXPECT_EQ(between.where, Where::past);
    EXPECT_EQ(between.offset, 2u);
    EXPECT_THAT(lab.told(0x501a), HasSubstr("just above begins an allocation of 24 bytes at 0x5020, alive"));
}

TEST(HeapBiography, OfTheLiveAndTheFreedNeighbourTheLiveOneIsTold) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 24).malloc(1100, 0x5000 - 0x20, 24).free(1200, 0x5000);
    lab.malloc(1300, 0x5100, 16);
    // 0x4ff8 is past the end of the live one, and before the start of the freed one.
    const Biography biography = lab.at(0x4ff8);
    EXPECT_EQ(biography.where, Where::past);
    EXPECT_EQ(biography.life->start, 0x4fe0u);
    EXPECT_FALSE(biography.next_above.has_value());
}

TEST(HeapBiography, InAnotherAllocationItIsNotPastThisOne) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 32).malloc(1100, 0x5020, 32);
    const Biography biography = lab.at(0x5020);
    EXPECT_EQ(biography.where, Where::inside);
    EXPECT_EQ(biography.life->start, 0x5020u);
    ASSERT_TRUE(biography.below.has_value());
    EXPECT_EQ(biography.below->start, 0x5000u);
}

TEST(HeapBiography, AnAddressIsGivenOutAgain) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64, 11).free(2000, 0x5000, 12).malloc(3000, 0x5000, 48, 13, 101).free(4000, 0x5000, 14);
    lab.malloc(5000, 0x5000, 40, 15);
    EXPECT_EQ(lab.told(0x5008), "8 bytes into an allocation of 40 bytes at 0x5000, alive\n"
                                "allocated by stack 15, in thread 100, 5.00 µs before\n"
                                "before that, an allocation of 48 bytes at 0x5000, allocated by stack 13, in thread "
                                "101, 7.00 µs before, freed by stack 14, in thread 100, 6.00 µs before; and 1 earlier");
    // Beyond the one there now, only the first of them reached.
    EXPECT_EQ(lab.at(0x5030 + 8).life->size, 64u);
    EXPECT_TRUE(lab.at(0x5030 + 8).inside_freed());
}

TEST(HeapBiography, ADifferentStartCoversTheSameAddress) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 256, 11).free(2000, 0x5000, 12).malloc(3000, 0x5040, 64, 13);
    const Biography biography = lab.at(0x5048);
    EXPECT_EQ(biography.life->start, 0x5040u);
    ASSERT_TRUE(biography.previous.has_value());
    EXPECT_EQ(biography.previous->start, 0x5000u);
    // Just past the live one, where the freed one reached: both are told.
    const Biography past = lab.at(0x5080);
    EXPECT_TRUE(past.inside_freed());
    ASSERT_TRUE(past.below.has_value());
    EXPECT_EQ(past.below->start, 0x5040u);
}

TEST(HeapBiography, AsOfTheFaultNotLater) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).free(12'000, 0x5000).malloc(13'000, 0x5000, 32, 9);
    const Biography biography = lab.at(0x5000, 10'000);
    EXPECT_EQ(biography.life->size, 64u);
    EXPECT_EQ(biography.life->end, Life::End::none);
    EXPECT_THAT(lab.told(0x5000, 10'000), HasSubstr("freed by stack 2, in thread 100, 2.00 µs after"));
    EXPECT_EQ(lab.at(0x5000, 14'000).life->size, 32u);
}

TEST(HeapBiography, FreedTwice) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).free(2000, 0x5000, 2).free(3000, 0x5000, 5, 102);
    EXPECT_EQ(lab.told(0x5000), "the start of an allocation of 64 bytes, freed 8.00 µs before\n"
                                "allocated by stack 1, in thread 100, 9.00 µs before\n"
                                "freed by stack 2, in thread 100, 8.00 µs before\n"
                                "freed again by stack 5, in thread 102, 7.00 µs before");
    const auto twice = last_double_free(lab.heap(), 10'000);
    ASSERT_TRUE(twice.has_value());
    EXPECT_EQ(twice->freed_again.at(0).stack, 5u);
    EXPECT_FALSE(last_double_free(lab.heap(), 2'500).has_value());
}

TEST(HeapBiography, FreedTwiceWithTheFirstAllocationForgotten) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).free(2000, 0x5000).free(3000, 0x5000).forget(1500);
    const Biography biography = lab.at(0x5000);
    EXPECT_FALSE(biography.life->allocated.has_value());
    EXPECT_EQ(biography.life->size, 64u);
    EXPECT_EQ(biography.life->freed_again.size(), 1u);
    EXPECT_THAT(lab.told(0x5000), HasSubstr("allocated before the history begins"));
}

TEST(HeapBiography, AFreeOfSomethingOlderIsNoDoubleFree) {
    HeapLab lab;
    lab.free(2000, 0x5000); // nothing was known of it
    const Biography biography = lab.at(0x5000);
    EXPECT_THAT(lab.told(0x5000), HasSubstr("the start of an allocation of unknown size, freed 8.00 µs before"));
    EXPECT_TRUE(biography.life->freed_again.empty());
    EXPECT_EQ(lab.at(0x5008).where, Where::unknown);
    EXPECT_FALSE(last_double_free(lab.heap(), 10'000).has_value());
}

TEST(HeapBiography, FreedAllocatedAndFreedIsNoDoubleFree) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).free(2000, 0x5000).malloc(2500, 0x5000, 64, 4).free(3000, 0x5000);
    EXPECT_TRUE(lab.at(0x5000).life->freed_again.empty());
    EXPECT_FALSE(last_double_free(lab.heap(), 10'000).has_value());
}

TEST(HeapBiography, AKnownFreeAfterAFreeSaysThatAnAllocationWasMissed) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).free(2000, 0x5000).malloc(2500, 0x5000, 48, 4).free(3000, 0x5000);
    std::erase_if(lab.snapshot.history, [](const auto &record) { return record.t_ns == 2500; });
    const Biography biography = lab.at(0x5000);
    EXPECT_TRUE(biography.life->freed_again.empty());
    EXPECT_FALSE(biography.life->allocated.has_value());
    EXPECT_EQ(biography.life->size, 48u);
    EXPECT_EQ(biography.previous->size, 64u);
}

TEST(HeapBiography, AFreeOfAPointerIntoAnAllocationIsNoAllocation) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).free(2000, 0x5010);
    const Biography biography = lab.at(0x5010);
    EXPECT_EQ(biography.life->start, 0x5000u);
    EXPECT_EQ(biography.life->end, Life::End::none);
    EXPECT_FALSE(biography.previous.has_value());
}

TEST(HeapBiography, ReallocThatMoves) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).realloc(2000, 2100, 0x5000, 0x6000, 128);
    EXPECT_EQ(lab.told(0x5000),
              "the start of an allocation of 64 bytes, freed 8.00 µs before\n"
              "allocated by stack 1, in thread 100, 9.00 µs before\n"
              "resized to 128 bytes at 0x6000, by stack 3 with realloc, in thread 100, 8.00 µs before");
    EXPECT_EQ(lab.told(0x6000),
              "the start of an allocation of 128 bytes, alive\n"
              "resized from 64 bytes at 0x5000, by stack 3 with realloc, in thread 100, 7.90 µs before");
}

TEST(HeapBiography, ReallocInPlace) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).realloc(2000, 2100, 0x5000, 0x5000, 72);
    const Biography biography = lab.at(0x5044);
    EXPECT_EQ(biography.life->size, 72u);
    EXPECT_EQ(biography.life->resized_from->size, 64u);
    EXPECT_EQ(biography.life->end, Life::End::none);
}

TEST(HeapBiography, ReallocInPlaceThatTakesNoTime) {
    HeapLab lab;
    lab.malloc(2000, 0x5000, 64).realloc(2000, 2000, 0x5000, 0x5000, 72).realloc(2000, 2000, 0x5000, 0x5000, 80);
    const Biography biography = lab.at(0x5000);
    EXPECT_EQ(biography.life->size, 80u);
    EXPECT_EQ(biography.life->end, Life::End::none);
    EXPECT_EQ(biography.previous->size, 72u);
    EXPECT_TRUE(biography.life->freed_again.empty());
}

TEST(HeapBiography, AReallocsOldAddressIsGivenOutBeforeItReturns) {
    HeapLab lab;
    // Thread 101 gets 0x5000 while thread 100's realloc, called before, has not returned: its free is written last.
    lab.malloc(1000, 0x5000, 64);
    lab.snapshot.history.push_back({2050, 0x5000, 32, 8, 101, bpf::HEAP_ALLOCATED, bpf::HEAP_MALLOC, 0, 0});
    lab.snapshot.allocations = {{0x5000, 32, 8, 2050, 101, bpf::HEAP_MALLOC}};
    lab.snapshot.history.push_back({2000, 0x5000, 64, 3, 100, bpf::HEAP_FREED, bpf::HEAP_REALLOC, 0, 0});
    lab.snapshot.history.push_back({2100, 0x6000, 128, 3, 100, bpf::HEAP_ALLOCATED, bpf::HEAP_REALLOC, 0, 0});
    lab.snapshot.allocations.push_back({0x6000, 128, 3, 2100, 100, bpf::HEAP_REALLOC});
    const Biography biography = lab.at(0x5000);
    EXPECT_EQ(biography.life->size, 32u);
    EXPECT_EQ(biography.life->end, Life::End::none);
    EXPECT_EQ(biography.previous->resized_to->start, 0x6000u);
    EXPECT_EQ(lab.at(0x6000).life->resized_from->size, 64u);
}

TEST(HeapBiography, EqualTimesAreOrderedAsTheyCanHaveBeen) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64);
    // Written the other way round: the allocation before the free, both at 2000.
    lab.snapshot.history.push_back({2000, 0x5000, 32, 8, 101, bpf::HEAP_ALLOCATED, bpf::HEAP_MALLOC, 0, 0});
    lab.snapshot.history.push_back({2000, 0x5000, 64, 2, 100, bpf::HEAP_FREED, bpf::HEAP_FREE, 0, 0});
    lab.snapshot.allocations = {{0x5000, 32, 8, 2000, 101, bpf::HEAP_MALLOC}};
    const Biography biography = lab.at(0x5000);
    EXPECT_EQ(biography.life->size, 32u);
    EXPECT_EQ(biography.life->end, Life::End::none);
    EXPECT_EQ(biography.previous->end, Life::End::freed);
}

TEST(HeapBiography, AReallocToNothingIsNotTiedToTheNextCall) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64);
    lab.free(2000, 0x5000, 3).snapshot.history.back().function = bpf::HEAP_REALLOC;
    lab.malloc(2100, 0x6000, 32, 7);
    EXPECT_FALSE(lab.at(0x5000).life->resized_to.has_value());
    EXPECT_FALSE(lab.at(0x6000).life->resized_from.has_value());
}

TEST(HeapBiography, OlderThanTheHistoryButAlive) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64, 11).malloc(5000, 0x7000, 8).forget(4000);
    EXPECT_EQ(lab.told(0x5020), "32 bytes into an allocation of 64 bytes at 0x5000, alive\n"
                                "allocated by stack 11, in thread 100, 9.00 µs before");
}

TEST(HeapBiography, TheRingHasForgotten) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).free(2000, 0x5000).malloc(5000, 0x7000, 8).forget(4000);
    EXPECT_EQ(lab.at(0x5000).where, Where::unknown);
    EXPECT_EQ(unknown_text(lab.heap(), HeapLab::words(10'000)),
              "recorded since 10.00 µs before; the history reaches back to 6.00 µs before");
    // With what came after it is known again.
    lab.malloc(6000, 0x5000, 16).free(7000, 0x5000);
    EXPECT_TRUE(lab.at(0x5000).inside_freed());
    EXPECT_FALSE(lab.at(0x5000).previous.has_value());
}

TEST(HeapBiography, FreedInTheHistoryAllocatedBefore) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64).free(5000, 0x5000).forget(4000);
    const Biography biography = lab.at(0x5010);
    EXPECT_TRUE(biography.inside_freed());
    EXPECT_EQ(biography.life->size, 64u);
    EXPECT_THAT(lab.told(0x5010), HasSubstr("allocated before the history begins\nfreed by stack 2"));
}

TEST(HeapBiography, AtLevelSizesOnlyWhatIsAliveIsKnown) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64, 11).malloc(2000, 0x6000, 64).free(3000, 0x6000);
    lab.snapshot.history.clear();
    lab.snapshot.level = "sizes";
    EXPECT_EQ(lab.at(0x5000).life->allocated->stack, 11u);
    EXPECT_EQ(lab.at(0x6000).where, Where::unknown);
    EXPECT_THAT(unknown_text(lab.heap(), HeapLab::words(10'000)), HasSubstr("only what is alive is known"));
}

TEST(HeapBiography, AllocatedWithoutRoomInTheTable) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64, 11, 100, bpf::HEAP_UNLISTED);
    EXPECT_EQ(lab.at(0x5000).life->end, Life::End::none);
}

TEST(HeapBiography, ItsFreeWasNotSeen) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64);
    lab.snapshot.allocations.clear(); // as while a realloc has it
    EXPECT_EQ(lab.at(0x5000).life->end, Life::End::unseen);
    EXPECT_THAT(lab.told(0x5000), HasSubstr("no longer known as alive, its free not recorded"));
    HeapLab reused;
    reused.malloc(1000, 0x5000, 64).malloc(2000, 0x5000, 64, 4, 100, bpf::HEAP_REUSED);
    EXPECT_EQ(reused.at(0x5000).previous->end, Life::End::reused);
}

TEST(HeapBiography, WithoutTheLiveOnesNothingIsSaidToBeGone) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64);
    Heap heap = lab.heap();
    heap.known.allocations.clear();
    heap.live_read = false;
    const std::uint64_t asked[] = {0x5000};
    EXPECT_EQ(biography(lives_about(heap, asked), 0x5000, 10'000).life->end, Life::End::none);
}

TEST(HeapBiography, EmptyAndEnormousAllocations) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 0).malloc(1100, ~0ull - 100, ~0ull).malloc(1200, 0x9000, 16);
    EXPECT_EQ(lab.at(0x5000).where, Where::inside);
    EXPECT_EQ(lab.at(0x5001).where, Where::past);
    EXPECT_EQ(lab.at(~0ull - 50).where, Where::inside);
    EXPECT_EQ(lab.at(~0ull).where, Where::past); // the last byte there is lies in nothing
    EXPECT_EQ(lab.at(0).where, Where::unknown);
}

TEST(HeapBiography, RecordsOfNoKnownKindAreNothing) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64);
    lab.snapshot.history[0].kind = 77;
    lab.snapshot.allocations.clear();
    EXPECT_EQ(lab.at(0x5000).where, Where::unknown);
}

TEST(HeapBiography, AsJson) {
    HeapLab lab;
    lab.malloc(1000, 0x5000, 64, 0x11).free(4000, 0x5000, 0, 101);
    const Json json = to_json(lab.at(0x5008), HeapLab::words(10'000));
    EXPECT_EQ(json["where"], "inside");
    EXPECT_EQ(json["offset"], 8);
    EXPECT_EQ(json["allocation"]["state"], "freed");
    EXPECT_EQ(json["allocation"]["allocated"]["before_ns"], 9000);
    EXPECT_EQ(json["allocation"]["allocated"]["stack"], "0x11");
    EXPECT_EQ(json["allocation"]["allocated"]["place"], "stack 17");
    EXPECT_TRUE(json["allocation"]["freed"]["stack"].is_null());
    EXPECT_TRUE(json["allocation"]["freed"]["place"].is_null());
    EXPECT_THAT(json["lines"].dump(), HasSubstr("freed by an unknown caller, in thread 101"));
}

} // namespace
} // namespace incident::postmortem::test
