#include "capture/bundle/bundle_writer.h"
#include "tests/capture/bundle_fixture.h"

#include <atomic>
#include <thread>

namespace incident::capture {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;
using Files = std::vector<std::pair<std::string, std::string>>;

using BundleAmend = BundleTest;

TEST_F(BundleAmend, ReplacesAndAddsInOneStep) {
    commit();
    const auto before = dir.bundle(NAME);
    const auto inode = std::filesystem::hard_link_count(at(NAME + "/process/maps"));
    EXPECT_EQ(inode, 1u);
    ASSERT_TRUE(dir.amend(NAME, Files{{"incident.json", "{\"core\":1}"}, {"core/new", "n"}}));
    EXPECT_EQ(read(NAME, "incident.json"), "{\"core\":1}");
    EXPECT_EQ(read(NAME, "core/new"), "n");
    EXPECT_EQ(read(NAME, "process/maps"), "maps");
    EXPECT_THAT(verify(), IsEmpty());
    EXPECT_THAT(entries(), ElementsAre(NAME));
    // Who had it open reads on: what is gone with the old directory is found under the name.
    EXPECT_EQ(*before->read("incident.json"), "{\"core\":1}");
    EXPECT_TRUE(before->has("core/new"));
    EXPECT_THAT(*before->verify(), IsEmpty());
    EXPECT_EQ(before->manifest()->size(), 4u);
    EXPECT_TRUE(before->lines("process/maps", [](std::string_view line) { return line == "maps"; }));
}

TEST_F(BundleAmend, RefusesWithoutTouchingTheOld) {
    commit();
    EXPECT_FALSE(dir.amend(NAME, Files{{"../escape", "x"}}));
    EXPECT_FALSE(dir.amend("20261121T150405.123Z-crash-python3-1234-000000", Files{{"a", "x"}}));
    EXPECT_THAT(verify(), IsEmpty());
    EXPECT_THAT(entries(), ElementsAre(NAME));
    std::filesystem::remove(at(NAME + "/process/maps"));
    EXPECT_FALSE(dir.amend(NAME, Files{{"incident.json", "x"}})) << "a file it should keep is gone";
    EXPECT_EQ(read(NAME, "incident.json"), "{}");
    EXPECT_THAT(entries(), ElementsAre(NAME));
}

TEST_F(BundleAmend, FollowsNoLinkInABundleFromElsewhere) {
    commit();
    write("../elsewhere/maps", "maps");
    std::filesystem::remove_all(at(NAME + "/process"));
    std::filesystem::create_directory_symlink(state + "/elsewhere", at(NAME + "/process"));
    EXPECT_FALSE(dir.amend(NAME, Files{{"incident.json", "x"}}));
    EXPECT_EQ(std::filesystem::hard_link_count(state + "/elsewhere/maps"), 1u);
}

TEST_F(BundleAmend, TheManifestOfTheSuccessorIsLater) {
    commit();
    // The clock was set back a year since.
    const auto future = std::filesystem::file_time_type::clock::now() + std::chrono::hours(24 * 365);
    std::filesystem::last_write_time(at(NAME + "/MANIFEST"), future);
    ASSERT_TRUE(dir.amend(NAME, Files{{"incident.json", "x"}}));
    EXPECT_GT(std::filesystem::last_write_time(at(NAME + "/MANIFEST")), future);
}

TEST_F(BundleAmend, WithoutExchangeTwoRenamesDo) {
    commit();
    write(".amend-" + NAME + "/incident.json", "new");
    const auto old = replace_directory(dir.fd(), ".amend-" + NAME, NAME, false);
    ASSERT_TRUE(old) << old.error().what;
    EXPECT_EQ(*old, ".replaced-" + NAME);
    EXPECT_EQ(read(NAME, "incident.json"), "new");
    EXPECT_THAT(entries(), UnorderedElementsAre(NAME, ".replaced-" + NAME));
}

TEST_F(BundleAmend, ReadersNeverMeetHalfABundle) {
    commit();
    std::atomic<bool> stop = false;
    std::thread writer([&] {
        for (int i = 0; i < 300; ++i)
            EXPECT_TRUE(dir.amend(NAME, Files{{"incident.json", std::to_string(i)}}));
        stop = true;
    });
    std::size_t reads = 0;
    while (!stop) {
        const auto bundle = dir.bundle(NAME);
        ASSERT_TRUE(bundle) << bundle.error().what;
        for (const char *path : {"incident.json", "process/maps", "host/pressure/cpu"}) {
            const auto text = bundle->read(path);
            ASSERT_TRUE(text) << text.error().what;
        }
        const auto problems = bundle->verify();
        ASSERT_TRUE(problems);
        ASSERT_THAT(*problems, IsEmpty());
        ++reads;
    }
    writer.join();
    EXPECT_GT(reads, 0u);
}

} // namespace
} // namespace incident::capture
