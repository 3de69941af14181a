// Lines and numbers of a text.
#include "capture/os/lines.h"
#include "capture/os/number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace incident::capture {
namespace {

std::vector<std::string> all_lines(std::string_view text) {
    std::vector<std::string> lines;
    for (const std::string_view line : lines_of(text))
        lines.emplace_back(line);
    return lines;
}

TEST(Lines, AreParted) {
    using Lines = std::vector<std::string>;
    EXPECT_EQ(all_lines(""), Lines{});
    EXPECT_EQ(all_lines("a"), Lines{"a"});
    EXPECT_EQ(all_lines("a\n"), Lines{"a"});
    EXPECT_EQ(all_lines("a\n\nb c\n"), (Lines{"a", "", "b c"}));
    EXPECT_EQ(all_lines(std::string_view("a\0b\nc", 5)), (Lines{std::string("a\0b", 3), "c"}));
}

TEST(Numbers, AreTheWholeText) {
    EXPECT_EQ(whole_number<std::uint8_t>("255"), 255);
    EXPECT_EQ(whole_number<int>("-7"), -7);
    EXPECT_EQ(whole_number<std::uint64_t>("ff", 16), 255u);
    for (const char *wrong : {"", " 1", "1 ", "+1", "0x1", "256", "-1", "1.0"})
        EXPECT_FALSE(whole_number<std::uint8_t>(wrong)) << wrong;
    std::uint32_t kept = 3;
    EXPECT_FALSE(whole_number("4x", kept));
    EXPECT_EQ(kept, 3u);
    EXPECT_TRUE(whole_number("4", kept));
    EXPECT_EQ(kept, 4u);
}

} // namespace
} // namespace incident::capture
