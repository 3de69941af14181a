#include "tests/capture/bundle_fixture.h"

namespace incident::capture {
namespace {

using testing::ElementsAre;

class BundleResolve : public BundleTest {
protected:
    BundleResolve() {
        for (const std::string &name : {A, B, C, D})
            std::filesystem::create_directory(at(name));
        std::filesystem::create_directory(at("lost+found"));
        std::filesystem::create_directory(at(".partial-20291121T000000.000Z-crash-app-7-aaaaaa"));
        write("20301121T000000.000Z-crash-app-7-aaaaaa", "a file");
    }
    std::string resolve(std::string_view id) const {
        const auto name = dir.resolve(id);
        return name ? *name : name.error().what;
    }
    const std::string A = "20261121T000000.000Z-crash-app-7-aaaaaa", B = "20261121T000001.000Z-crash-app-8-bbbbbb",
                      C = "20261122T000000.000Z-slow-query-app-7-123456",
                      D = "20261123T000000.000Z-crash-app-20261121-dddddd";
};

TEST_F(BundleResolve, NamesAreOrderedByTime) {
    EXPECT_THAT(*dir.names(), ElementsAre(A, B, C, D));
}

TEST_F(BundleResolve, EveryWayToNameABundle) {
    EXPECT_EQ(resolve("latest"), D);
    EXPECT_EQ(resolve(A), A);
    EXPECT_EQ(resolve("8"), B);
    EXPECT_EQ(resolve("7"), C) << "the newest of that pid";
    EXPECT_EQ(resolve("aaaaaa"), A);
    EXPECT_EQ(resolve("123456"), C) << "an id of digits that is nobody's pid";
    EXPECT_EQ(resolve("20261122"), C) << "a prefix";
    EXPECT_EQ(resolve("20261121"), D) << "a pid before a prefix";
    EXPECT_EQ(resolve("20261121T000001"), B);
}

TEST_F(BundleResolve, SaysWhyNot) {
    EXPECT_EQ(resolve("20261121T"), "\"20261121T\" is ambiguous:\n  " + A + "\n  " + B);
    EXPECT_EQ(resolve("9"), "no incident \"9\" in " + dir.path());
    EXPECT_EQ(resolve(""), "no incident \"\" in " + dir.path());
    EXPECT_EQ(resolve(".partial"), "no incident \".partial\" in " + dir.path());
    EXPECT_EQ(dir.resolve("9").error().code, ENOENT);
    for (const std::string &name : {A, B, C, D})
        std::filesystem::remove(at(name));
    EXPECT_EQ(resolve("latest"), "no incidents in " + dir.path());
}

TEST_F(BundleResolve, NamesOnlySomeOfManyCandidates) {
    for (int i = 0; i < 20; ++i)
        std::filesystem::create_directory(at(bundle_name({0}, "r", "c", 1, "id" + std::to_string(i))));
    const std::string text = resolve("1970");
    EXPECT_TRUE(text.ends_with("\n  and 12 more")) << text;
}

} // namespace
} // namespace incident::capture
