#include "capture/bundle/manifest.h"

#include <gtest/gtest.h>

namespace incident::capture {
namespace {

const std::string SUM(64, 'a');

std::string manifest_error(const std::string &text) {
    const auto parsed = parse_manifest(text);
    return parsed ? "accepted" : parsed.error().what;
}

TEST(Manifest, ReadsWhatItWrites) {
    const std::vector<ManifestEntry> files{{"incident.json", 2, SUM}, {"process/maps", 0, SUM}};
    const std::string text = format_manifest(files);
    EXPECT_EQ(text, SUM + " 2 incident.json\n" + SUM + " 0 process/maps\nend 2\n");
    const auto parsed = parse_manifest(text);
    ASSERT_TRUE(parsed) << parsed.error().what;
    ASSERT_EQ(parsed->size(), 2u);
    EXPECT_EQ((*parsed)[0].path, "incident.json");
    EXPECT_EQ((*parsed)[0].size, 2u);
    EXPECT_EQ((*parsed)[1].sha256, SUM);
    EXPECT_TRUE(parse_manifest("end 0\n"));
}

TEST(Manifest, EveryTruncationIsSeen) {
    const std::string text = format_manifest(std::vector<ManifestEntry>{{"a", 1, SUM}, {"b", 12, SUM}});
    for (std::size_t length = 0; length < text.size(); ++length)
        EXPECT_FALSE(parse_manifest(text.substr(0, length))) << length;
}

TEST(Manifest, SaysWhatIsBroken) {
    EXPECT_EQ(manifest_error(""), "MANIFEST:1: cut off: no \"end\" line");
    EXPECT_EQ(manifest_error(SUM + " 2 a\nend 2\n"), "MANIFEST:2: counts other files than it lists");
    EXPECT_EQ(manifest_error("end 0\nx"), "MANIFEST:1: bytes after the \"end\" line");
    EXPECT_EQ(manifest_error(SUM + " 2 ../a\nend 1\n"), "MANIFEST:1: not a path of a bundle");
    EXPECT_EQ(manifest_error(SUM + " 2 MANIFEST\nend 1\n"), "MANIFEST:1: not a path of a bundle");
    EXPECT_EQ(manifest_error(SUM + " 2 a\n" + SUM + " 2 a\nend 2\n"), "MANIFEST:2: lists a file twice");
    EXPECT_EQ(manifest_error(SUM + " x a\nend 1\n"), "MANIFEST:1: not \"<sha256> <size> <path>\"");
    EXPECT_EQ(manifest_error(SUM + " 18446744073709551616 a\nend 1\n"), "MANIFEST:1: not \"<sha256> <size> <path>\"");
    EXPECT_EQ(manifest_error(std::string(64, 'A') + " 1 a\nend 1\n"), "MANIFEST:1: not \"<sha256> <size> <path>\"");
}

TEST(Manifest, SumsAsOthersDo) {
    Sha256 sum; // FIPS 180-2, "abc"
    const std::uint8_t abc[] = {'a', 'b', 'c'};
    sum.add(std::span(abc).first(1));
    sum.add(std::span(abc).subspan(1));
    EXPECT_EQ(sum.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sum.hex(), ""); // ended
}

} // namespace
} // namespace incident::capture
