#include "capture/os/maps.h"

#include <gtest/gtest.h>

namespace incident::capture {
namespace {

constexpr std::string_view sample =
    "55d0c0a00000-55d0c0a02000 r--p 00000000 08:01 1234                       /usr/bin/my app\n"
    "55d0c0a02000-55d0c0a05000 r-xp 00002000 08:01 1234                       /usr/bin/my app\n"
    "55d0c1b00000-55d0c1b21000 rw-p 00000000 00:00 0                          [heap]\n"
    "7f0000000000-7f0000010000 rw-p 00000000 00:00 0 \n"
    "7f0000010000-7f0000020000 r-xs 00001000 103:0b 99                        /memfd:jit (deleted)\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";

TEST(MapsParse, KernelText) {
    const Maps maps = Maps::parse(sample);
    ASSERT_EQ(maps.all().size(), 6u);
    const Mapping *code = maps.find(UserAddress(0x55d0c0a02fff));
    ASSERT_TRUE(code);
    EXPECT_EQ(code->path, "/usr/bin/my app");
    EXPECT_EQ(code->offset, FileOffset(0x2000));
    EXPECT_EQ(code->inode, 1234u);
    EXPECT_EQ(code->major, 8u);
    EXPECT_EQ(code->minor, 1u);
    EXPECT_TRUE(code->read && code->execute && !code->write && !code->shared);
    EXPECT_TRUE(code->is_file());
    const Mapping *jit = maps.find(UserAddress(0x7f0000010000));
    ASSERT_TRUE(jit);
    EXPECT_TRUE(jit->deleted && jit->shared);
    EXPECT_EQ(jit->path, "/memfd:jit");
    EXPECT_EQ(jit->major, 0x103u);
    EXPECT_EQ(maps.find(UserAddress(0x7f0000000000))->path, "");
    EXPECT_FALSE(maps.find(UserAddress(0x55d0c1b00000))->is_file());
    EXPECT_TRUE(maps.find(UserAddress(0xffffffffff600fff)));
}

TEST(MapsParse, NothingBetweenMappings) {
    const Maps maps = Maps::parse(sample);
    EXPECT_EQ(maps.find(UserAddress(0)), nullptr);
    EXPECT_EQ(maps.find(UserAddress(0x55d0c0a05000)), nullptr);
    EXPECT_EQ(maps.find(UserAddress(0xffffffffff601000)), nullptr);
    EXPECT_EQ(maps.find(UserAddress(~0ull)), nullptr);
}

TEST(MapsParse, LinesThatAreNotTheKernelsAreLeftOut) {
    for (const char *text :
         {"", "\n\n", "garbage", "1000-", "1000-2000", "1000-2000 r-xp", "2000-1000 r-xp 0 0:0 0",
          "1000-2000 r-xp 0 0:0 zz", "g000-2000 r-xp 0 0:0 0", "10000000000000000-2 r-xp 0 0:0 0", "1000-2000 r-x"})
        EXPECT_TRUE(Maps::parse(text).empty()) << text;
    EXPECT_EQ(Maps::parse("junk\n1000-2000 r-xp 00000000 00:00 0\n\x01\xff").all().size(),
              1u); // a cut file's last line
}

TEST(MapsParse, UnsortedInputIsSorted) {
    const Maps maps = Maps::parse("3000-4000 r-xp 0 0:0 0 b\n1000-2000 r-xp 0 0:0 0 a\n");
    EXPECT_EQ(maps.find(UserAddress(0x1800))->path, "a");
    EXPECT_EQ(maps.find(UserAddress(0x3000))->path, "b");
}

TEST(MapsParse, AProcessThatEndsMeanwhileIsSeen) {
    const std::string stack = "7ffd0000-7ffe00000000 rw-p 00000000 00:00 0 [stack]\n",
                      last = "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n",
                      of_32_bits = "8048000-8049000 r-xp 00000000 08:01 7 /bin/old\n";
    EXPECT_FALSE(maps_end_early(stack + last, stack + last));
    EXPECT_TRUE(maps_end_early(stack, stack + last));
    EXPECT_FALSE(maps_end_early(stack, stack)) << "this kernel has no such page";
    EXPECT_FALSE(maps_end_early(of_32_bits, stack + last)) << "it may be whole";
    EXPECT_FALSE(maps_end_early("", stack + last));
}

} // namespace
} // namespace incident::capture
