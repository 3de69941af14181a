#include "capture/os/dir_at.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

namespace incident::capture {
namespace {

TEST(ReadAllAt, FillsTheWholeOrFails) {
    const UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
    ASSERT_TRUE(write_all(file.get(), {reinterpret_cast<const std::uint8_t *>("0123456789"), 10}));
    std::string four(4, '\0');
    ASSERT_TRUE(read_all_at(file.get(), 0, four));
    EXPECT_EQ(four, "0123");
    ASSERT_TRUE(read_all_at(file.get(), 6, four));
    EXPECT_EQ(four, "6789");
    EXPECT_TRUE(read_all_at(file.get(), 10, {}));
    EXPECT_EQ(read_all_at(file.get(), 7, four).error().what, "the file ends before");
    EXPECT_EQ(read_all_at(file.get(), ~0ull, four).error().code, EOVERFLOW);
    EXPECT_EQ(read_all_at(-1, 0, four).error().code, EBADF);
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const UniqueFd read_end(ends[0]), write_end(ends[1]);
    EXPECT_EQ(read_all_at(read_end.get(), 0, four).error().code, ESPIPE);
}

} // namespace
} // namespace incident::capture
