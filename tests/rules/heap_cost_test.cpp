// What one process's heap may take, against what the kernel keeps of it.
#include "rules/files/heap_cost.h"

#include "bpf/heap.h"

#include <gtest/gtest.h>

namespace incident::rules {
namespace {

// Sizes of kmalloc's slabs that an element may come from (include/linux/slab.h).
constexpr std::uint64_t slab(std::uint64_t bytes) {
    for (const std::uint64_t size : {64, 96, 128, 192, 256, 512, 1024, 2048, 4096})
        if (bytes <= size)
            return size;
    return ~0ull;
}

TEST(HeapCost, IsOfTheStructuresThereAre) {
    constexpr std::uint64_t header = 48, key = 8, link = 8;
    EXPECT_EQ(heap_live_element, slab(header + key + sizeof(bpf::heap_allocation) + link));
    EXPECT_EQ(heap_stack_element, slab(header + key + sizeof(bpf::heap_stack) + link));
    EXPECT_EQ(heap_history_record, sizeof(bpf::heap_record));
}

TEST(HeapCost, EachLevelTakesWhatItKeeps) {
    const Config::Heap heap{.live = 1024, .stacks = 64, .history = 1024};
    EXPECT_EQ(heap_bytes(heap, Allocations::Pages), 0u);
    EXPECT_EQ(heap_bytes(heap, Allocations::Sizes), 1024u * 112 + 64 * 2064);
    EXPECT_EQ(heap_bytes(heap, Allocations::History), 1024u * 112 + 64 * 2064 + 1024 * 48);
}

TEST(HeapCost, BucketsAreAPowerOfTwo) {
    const Config::Heap heap{.live = 1025, .stacks = 65};
    EXPECT_EQ(heap_bytes(heap, Allocations::Sizes), 1025u * 96 + 2048 * 16 + 65 * 2048 + 128 * 16);
}

TEST(HeapCost, LargestDoesNotOverflow) {
    const Config::Heap heap{.live = 16777216, .stacks = 65536, .history = 4194304};
    EXPECT_EQ(heap_bytes(heap, Allocations::History), 16777216ull * 112 + 65536ull * 2064 + 4194304ull * 48);
}

} // namespace
} // namespace incident::rules
