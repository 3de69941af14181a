#include "postmortem/image/image_memory.h"

#include <gmock/gmock.h>

#include <random>

namespace incident::postmortem {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(ImageMemory, PiecesThatTouchBecomeOne) {
    ImageMemory memory;
    memory.add(0x1000, "abc");
    memory.add(0x1006, "ghi");
    memory.add(0x1003, "def");
    EXPECT_THAT(memory.pieces(), ElementsAre(Pair(0x1000, "abcdefghi")));
}

TEST(ImageMemory, WhatWasAddedFirstStays) {
    ImageMemory memory;
    memory.add(0x1002, "XX");
    memory.add(0x1000, "aaaaaaaa");
    memory.add(0x0fff, "bb");
    EXPECT_THAT(memory.pieces(), ElementsAre(Pair(0x0fff, "baaXXaaaa")));
}

TEST(ImageMemory, ManyAtOnceAreAsOneAfterTheOther) {
    std::minstd_rand random(1);
    const auto below = [&](unsigned most) { return static_cast<std::uint64_t>(random()) % most; };
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::string> texts(1 + below(20));
        std::vector<std::pair<std::uint64_t, std::string_view>> pieces;
        for (std::string &text : texts) {
            text.assign(below(12), static_cast<char>('a' + pieces.size()));
            pieces.emplace_back((round % 2 ? 0x1000 : ~std::uint64_t{0} - 80) + below(60), text);
        }
        ImageMemory at_once, one_by_one;
        at_once.add(0x1010, "known");
        one_by_one.add(0x1010, "known");
        at_once.add_all(pieces);
        for (const auto &[address, bytes] : pieces)
            one_by_one.add(address, bytes);
        ASSERT_EQ(at_once.pieces(), one_by_one.pieces()) << "round " << round;
    }
}

TEST(ImageMemory, ReadsUpToTheGap) {
    ImageMemory memory;
    memory.add(0x1000, "abcd");
    char bytes[8];
    EXPECT_EQ(memory.read(0x1002, bytes), 2u);
    EXPECT_EQ(memory.read(0x1004, bytes), 0u);
    EXPECT_EQ(memory.read(0x0fff, bytes), 0u);
}

TEST(ImageMemory, AWordIsWholeOrNothing) {
    ImageMemory memory;
    memory.add(0x1000, std::string_view("\1\0\0\0\0\0\0\0\2", 9));
    EXPECT_EQ(memory.word(0x1000), 1u);
    EXPECT_EQ(memory.word(0x1002), std::nullopt);
}

TEST(ImageMemory, TextEndsAtItsNulOrIsCut) {
    ImageMemory memory;
    memory.add(0x1000, std::string_view("hello\0world", 11));
    bool cut = true;
    EXPECT_EQ(memory.text(0x1000, 100, &cut), "hello");
    EXPECT_FALSE(cut);
    EXPECT_EQ(memory.text(0x1006, 100, &cut), "world");
    EXPECT_TRUE(cut);
    EXPECT_EQ(memory.text(0x2000, 100), std::nullopt);
}

TEST(ImageMemory, TheEndOfTheAddressSpaceIsNotPassed) {
    ImageMemory memory;
    memory.add(~std::uint64_t{0} - 2, "abcdef");
    EXPECT_THAT(memory.pieces(), ElementsAre(Pair(~std::uint64_t{0} - 2, "ab")));
    char bytes[8];
    EXPECT_EQ(memory.read(~std::uint64_t{0}, bytes), 0u);
}

} // namespace
} // namespace incident::postmortem
