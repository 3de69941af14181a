#include "tests/capture/bundle_fixture.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

namespace incident::capture {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using BundleWrite = BundleTest;

unsigned mode(const std::filesystem::path &path) {
    struct stat st {};
    EXPECT_EQ(::lstat(path.c_str(), &st), 0);
    return st.st_mode & 07777;
}

TEST_F(BundleWrite, NothingIsVisibleBeforeCommit) {
    auto partial = dir.begin(NAME);
    ASSERT_TRUE(partial);
    ASSERT_TRUE(partial->add("incident.json", "{}"));
    EXPECT_THAT(*dir.names(), IsEmpty());
    EXPECT_THAT(entries(), ElementsAre(".partial-" + NAME));
    ASSERT_TRUE(partial->commit());
    EXPECT_THAT(*dir.names(), ElementsAre(NAME));
    EXPECT_THAT(entries(), ElementsAre(NAME));
    EXPECT_EQ(read(NAME, "incident.json"), "{}");
    EXPECT_THAT(verify(), IsEmpty());
}

TEST_F(BundleWrite, UncommittedVanishes) {
    {
        auto partial = dir.begin(NAME);
        ASSERT_TRUE(partial);
        ASSERT_TRUE(partial->add("process/maps", "x"));
        PartialBundle moved = std::move(*partial);
        EXPECT_EQ(moved.name(), NAME);
        ASSERT_TRUE(moved.add("host/pressure/cpu", "y"));
    }
    EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(BundleWrite, BelongsToTheOwnerOnly) {
    commit();
    EXPECT_EQ(mode(dir.path()), 0700u);
    EXPECT_EQ(mode(at(NAME)), 0700u);
    EXPECT_EQ(mode(at(NAME + "/process")), 0700u);
    EXPECT_EQ(mode(at(NAME + "/process/maps")), 0600u);
    EXPECT_EQ(mode(at(NAME + "/MANIFEST")), 0600u);
}

TEST_F(BundleWrite, RefusesWhatDoesNotBelongThere) {
    auto partial = dir.begin(NAME);
    ASSERT_TRUE(partial);
    for (const char *path : {"../escape", "/etc/x", "", "MANIFEST", "a/b/c/d/e", ".hidden"})
        EXPECT_FALSE(partial->add(path, "x")) << path;
    ASSERT_TRUE(partial->add("a", "x"));
    EXPECT_EQ(partial->add("a", "y").error().code, EEXIST);
    EXPECT_FALSE(partial->add("a/b", "y")) << "a is a file";
    ASSERT_TRUE(partial->commit());
    EXPECT_FALSE(partial->add("late", "x"));
    EXPECT_FALSE(partial->commit());
    EXPECT_EQ(dir.begin("not a name").error().code, EINVAL);
    EXPECT_EQ(dir.begin(NAME).error().code, EEXIST);
}

// An attempt that failed may have failed to remove its files, too (no descriptor was left).
TEST_F(BundleWrite, WhatAnEarlierAttemptLeftIsNoObstacle) {
    write(".partial-" + NAME + "/process/maps", "of the first attempt");
    auto partial = dir.begin(NAME);
    ASSERT_TRUE(partial) << partial.error().what;
    ASSERT_TRUE(partial->add("incident.json", "second"));
    ASSERT_TRUE(partial->commit());
    EXPECT_EQ(read(NAME, "incident.json"), "second");
    EXPECT_FALSE(dir.bundle(NAME)->has("process/maps"));
}

TEST_F(BundleWrite, NeverReplacesABundle) {
    auto first = dir.begin(NAME);
    ASSERT_TRUE(first->add("incident.json", "first"));
    // Another writer was faster.
    write(NAME + "/incident.json", "other");
    EXPECT_FALSE(first->commit());
    EXPECT_EQ(read(NAME, "incident.json"), "other");
}

TEST_F(BundleWrite, DoesNotFollowLinksPutInItsWay) {
    auto partial = dir.begin(NAME);
    ASSERT_TRUE(partial);
    std::filesystem::create_directory_symlink("/tmp", at(".partial-" + NAME + "/process"));
    EXPECT_FALSE(partial->add("process/maps", "x"));
    std::filesystem::create_symlink("/tmp/incidentd-should-not-exist", at(".partial-" + NAME + "/file"));
    EXPECT_FALSE(partial->add("file", "x"));
    EXPECT_FALSE(std::filesystem::exists("/tmp/incidentd-should-not-exist"));
}

TEST_F(BundleWrite, RemoveTakesTheWholeBundle) {
    commit();
    ASSERT_TRUE(dir.remove(NAME));
    EXPECT_THAT(entries(), IsEmpty());
    EXPECT_EQ(dir.remove(NAME).error().code, ENOENT);
    EXPECT_FALSE(dir.remove("../" + NAME));
}

TEST_F(BundleWrite, APinnedOneIsNotRemoved) {
    commit();
    ASSERT_TRUE(dir.set_pinned(NAME, true));
    EXPECT_THAT(*dir.pinned(), ElementsAre(NAME));
    EXPECT_EQ(dir.remove(NAME).error().code, EBUSY);
    EXPECT_THAT(verify(), IsEmpty());
    ASSERT_TRUE(dir.set_pinned(NAME, false));
    EXPECT_THAT(*dir.pinned(), IsEmpty());
    ASSERT_TRUE(dir.set_pinned(NAME, false)) << "it is not pinned already";
    ASSERT_TRUE(dir.remove(NAME));
    EXPECT_EQ(dir.set_pinned(NAME, true).error().code, ENOENT);
    EXPECT_FALSE(dir.set_pinned("../" + NAME, true));
    EXPECT_THAT(entries(), IsEmpty());
}

// It was pinned while it was being removed, and the daemon was killed before it could put it back.
TEST_F(BundleWrite, OneThatIsPinnedComesBack) {
    commit();
    ASSERT_TRUE(dir.set_pinned(NAME, true));
    std::filesystem::rename(at(NAME), at(".removed-" + NAME));
    ASSERT_TRUE(dir.recover());
    EXPECT_THAT(verify(), IsEmpty());
    EXPECT_THAT(*dir.pinned(), ElementsAre(NAME));
}

TEST_F(BundleWrite, AMarkOfOneThatIsGoneIsDropped) {
    commit();
    ASSERT_TRUE(dir.set_pinned(NAME, true));
    std::filesystem::remove_all(at(NAME));
    ASSERT_TRUE(dir.recover());
    EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(BundleWrite, AFullDiskIsAnErrorAndLeavesNothing) {
    // RLIMIT_FSIZE stands in for it: write(2) fails with EFBIG half way.
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{4096, 4096};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        bool failed = false;
        {
            auto partial = dir.begin(NAME);
            failed = partial && !partial->add("big", std::string(100'000, 'x'));
        }
        ::_exit(failed ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_THAT(entries(), IsEmpty());
}

TEST_F(BundleWrite, AnUnmountedStateIsNotMadeByAReader) {
    const auto missing = IncidentsDir::open(state + "/none", false);
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ENOENT);
    EXPECT_THAT(missing.error().what, HasSubstr(state + "/none"));
    std::filesystem::create_directory(state + "/other");
    std::filesystem::create_directory_symlink("/tmp", state + "/other/incidents");
    EXPECT_FALSE(IncidentsDir::open(state + "/other", true)) << "a link in the place of incidents";
}

} // namespace
} // namespace incident::capture
