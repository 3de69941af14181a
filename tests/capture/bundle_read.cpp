#include "tests/capture/bundle_fixture.h"

#include <sys/stat.h>

namespace incident::capture {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using BundleRead = BundleTest;

TEST_F(BundleRead, WholeFilesUpToACap) {
    commit(NAME, {{"a", "12345"}, {"empty", ""}});
    const auto bundle = dir.bundle(NAME);
    ASSERT_TRUE(bundle);
    EXPECT_EQ(*bundle->read("a"), "12345");
    EXPECT_EQ(*bundle->read("a", 5), "12345");
    EXPECT_EQ(bundle->read("a", 4).error().code, EFBIG);
    EXPECT_EQ(*bundle->read("empty", 0), "");
    EXPECT_EQ(bundle->read("none").error().code, ENOENT);
    EXPECT_THAT(bundle->read("none").error().what, HasSubstr(NAME + ": none"));
    EXPECT_TRUE(bundle->has("a"));
    EXPECT_FALSE(bundle->has("none"));
    ASSERT_EQ(bundle->manifest()->size(), 2u);
}

TEST_F(BundleRead, NeverLeavesTheBundle) {
    commit();
    std::filesystem::create_symlink("/etc/passwd", at(NAME + "/link"));
    std::filesystem::create_directory_symlink("/etc", at(NAME + "/etc"));
    ASSERT_EQ(::mkfifo(at(NAME + "/fifo").c_str(), 0600), 0);
    const auto bundle = dir.bundle(NAME);
    for (const char *path :
         {"link", "etc/passwd", "../", "/etc/passwd", "process/../../../etc/passwd", "fifo", "process"}) {
        EXPECT_FALSE(bundle->read(path)) << path;
        EXPECT_FALSE(bundle->lines(path, [](auto) { return true; })) << path;
        EXPECT_FALSE(bundle->has(path)) << path;
    }
    EXPECT_FALSE(dir.bundle("../x"));
    std::filesystem::create_directory_symlink(at(NAME), at("20270101T000000.000Z-crash-a-1-b"));
    EXPECT_FALSE(dir.bundle("20270101T000000.000Z-crash-a-1-b"));
    EXPECT_THAT(*dir.names(), ElementsAre(NAME)) << "a link is not a bundle";
}

TEST_F(BundleRead, LineByLine) {
    const std::string longest(1 << 20, 'x');
    std::string many;
    for (int i = 0; i < 100'000; ++i)
        many += std::to_string(i) + "\n";
    commit(NAME, {{"lines", "one\n\nthree\nlast"},
                  {"longest", longest + "\n" + longest},
                  {"too-long", longest + "x\n"},
                  {"many", many}});
    const auto bundle = dir.bundle(NAME);
    std::vector<std::string> seen;
    const auto keep = [&](std::string_view line) {
        seen.emplace_back(line);
        return true;
    };
    ASSERT_TRUE(bundle->lines("lines", keep));
    EXPECT_THAT(seen, ElementsAre("one", "", "three", "last"));
    seen.clear();
    ASSERT_TRUE(bundle->lines("longest", keep));
    EXPECT_THAT(seen, ElementsAre(longest, longest));
    EXPECT_THAT(bundle->lines("too-long", keep).error().what, HasSubstr("too-long:1: line too long"));
    int count = 0;
    ASSERT_TRUE(bundle->lines("many", [&](std::string_view line) { return line == std::to_string(count++); }));
    EXPECT_EQ(count, 100'000);
    count = 0;
    ASSERT_TRUE(bundle->lines("many", [&](std::string_view) { return ++count < 10; }));
    EXPECT_EQ(count, 10);
}

TEST_F(BundleRead, VerifyFindsEveryChange) {
    commit();
    EXPECT_THAT(verify(), IsEmpty());
    write(NAME + "/process/maps", "MAPS");
    write(NAME + "/host/pressure/cpu", "longer than it was");
    write(NAME + "/process/extra", "x");
    write(NAME + "/.hidden", "x");
    std::filesystem::remove(at(NAME + "/incident.json"));
    std::filesystem::create_symlink("/etc/passwd", at(NAME + "/link"));
    std::filesystem::create_directories(at(NAME + "/a/b/c/d"));
    EXPECT_THAT(verify(),
                UnorderedElementsAre("process/maps: changed (SHA-256 differs)", "host/pressure/cpu: 18 bytes, not 4",
                                     "process/extra: not in MANIFEST", ".hidden: not in MANIFEST",
                                     "incident.json: missing", "link: a symbolic link", "a/b/c: not in MANIFEST"));
}

TEST_F(BundleRead, VerifySeesThroughReplacements) {
    commit();
    std::filesystem::remove(at(NAME + "/incident.json"));
    write("../elsewhere", "{}");
    std::filesystem::create_symlink(state + "/elsewhere", at(NAME + "/incident.json"));
    std::filesystem::remove(at(NAME + "/process/maps"));
    ASSERT_EQ(::mkfifo(at(NAME + "/process/maps").c_str(), 0600), 0);
    EXPECT_THAT(verify(), UnorderedElementsAre("incident.json: a symbolic link", "process/maps: not a regular file"));
}

TEST_F(BundleRead, VerifyNamesABrokenManifest) {
    commit();
    std::filesystem::resize_file(at(NAME + "/MANIFEST"), 100);
    EXPECT_THAT(verify(), ElementsAre("MANIFEST:2: cut off: no \"end\" line"));
    EXPECT_FALSE(dir.bundle(NAME)->manifest());
    std::filesystem::remove(at(NAME + "/MANIFEST"));
    EXPECT_THAT(verify(), ElementsAre("MANIFEST: missing"));
}

} // namespace
} // namespace incident::capture
