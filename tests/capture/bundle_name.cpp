#include "capture/bundle/bundle_name.h"

#include "capture/bundle/bundle.h"

#include <gtest/gtest.h>

namespace incident::capture {
namespace {

constexpr std::uint64_t T = 1795273445123'456789; // 2026-11-21 15:04:05.123456789 UTC

TEST(BundleName, IsTimeRuleCommPidAndId) {
    EXPECT_EQ(bundle_name({T}, "crash", "python3", 1234, "9f3c2a"), "20261121T150405.123Z-crash-python3-1234-9f3c2a");
    EXPECT_EQ(bundle_name({0}, "crash", "x", 1, "0"), "19700101T000000.000Z-crash-x-1-0");
}

TEST(BundleName, KeepsHostileNamesHarmless) {
    EXPECT_EQ(bundle_name({T}, "r", "../../etc", 1, "a"), "20261121T150405.123Z-r-_.._.._etc-1-a");
    EXPECT_EQ(bundle_name({T}, "", "", 1, ""), "20261121T150405.123Z-_-_-1-_");
    EXPECT_EQ(bundle_name({T}, "r", "a\nb\x1b[31m", 1, "x-y"), "20261121T150405.123Z-r-a_b__31m-1-x_y");
    EXPECT_EQ(bundle_name({T}, "r", "(sd-pam)", 1, "a"), "20261121T150405.123Z-r-_sd-pam_-1-a");
    const std::string longest =
        bundle_name({T}, std::string(5000, 'r'), std::string(5000, 'c'), 4294967295u, std::string(5000, 'i'));
    EXPECT_LE(longest.size() + REPLACED_PREFIX.size(), 255u);
    EXPECT_TRUE(parse_bundle_name(longest));
}

TEST(BundleName, ParsesBack) {
    const auto parts = parse_bundle_name("20261121T150405.123Z-slow-query-my-app-1234-9f3c2a");
    ASSERT_TRUE(parts);
    EXPECT_EQ(parts->time, "20261121T150405.123Z");
    EXPECT_EQ(parts->what, "slow-query-my-app");
    EXPECT_EQ(parts->pid, 1234u);
    EXPECT_EQ(parts->short_id, "9f3c2a");
    for (const char *comm : {"-", "--", "a-", "-a", "."})
        EXPECT_TRUE(parse_bundle_name(bundle_name({T}, "r", comm, 7, "id"))) << comm;
}

TEST(BundleName, RefusesOtherDirectories) {
    for (const char *name :
         {"", ".", "..", "lost+found", ".partial-20261121T150405.123Z-crash-a-1-b", "20261121T150405.123Z",
          "20261121T150405.123Z-", "20261121T150405.123Z-crash-1-a", "20261121T150405.123Z--a-1-b",
          "20261121T150405.123Z-crash-a-x-b", "20261121T150405.123Z-crash-a--b", "20261121T150405.123Z-crash-a-1-",
          "20261121T150405.123Z-crash-a-4294967296-b", "20261121X150405.123Z-crash-a-1-b",
          "20261121T150405.123Z-crash-a/b-1-c", "20261121T150405.123Z-crash-a b-1-c"})
        EXPECT_FALSE(parse_bundle_name(name)) << name;
}

TEST(BundlePath, StaysWithinTheBundle) {
    for (const char *path : {"incident.json", "process/maps", "host/pressure/cpu", "mini.core", "a_b-c.d"})
        EXPECT_TRUE(valid_bundle_path(path)) << path;
    for (const char *path : {"", "/", "/etc/passwd", "..", "a/..", "../a", "a//b", "a/", ".hidden", "a/.hidden", "a b",
                             "a\nb", "a/b/c/d/e", "\xff"})
        EXPECT_FALSE(valid_bundle_path(path)) << path;
    EXPECT_FALSE(valid_bundle_path(std::string(200, 'a')));
}

} // namespace
} // namespace incident::capture
