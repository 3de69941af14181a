// Who may read incidents, as the file system has it.
#include "capture/bundle/bundle.h"
#include "daemon/write/access.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char *group = "nogroup"; // base-passwd has it everywhere
const std::string first = "20261122T013000.000Z-crash-one-12-abcdef", next = "20261122T013001.000Z-crash-two-13-abcdef";

class AccessTest : public testing::Test {
protected:
    AccessTest() {
        std::string name = (fs::temp_directory_path() / "access.XXXXXX").string();
        root = ::mkdtemp(name.data());
        state = root / "state";
        incidents.emplace(*capture::IncidentsDir::open(state, true));
    }
    ~AccessTest() override { fs::remove_all(root); }

    void commit(const std::string &name) {
        auto partial = incidents->begin(name);
        ASSERT_TRUE(partial) << partial.error().what;
        ASSERT_TRUE(partial->add("process/maps", std::string_view("text")));
        ASSERT_TRUE(partial->commit());
    }
    // "750 nogroup"
    static std::string of(const fs::path &path) {
        struct stat status {};
        EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
        char mode[16];
        std::snprintf(mode, sizeof mode, "%o ", status.st_mode & 07777);
        return mode + std::string(::getgrgid(status.st_gid)->gr_name);
    }
    fs::path root;
    std::string state;
    std::optional<capture::IncidentsDir> incidents;
};

TEST_F(AccessTest, AGroupReadsWhatWasAndWhatComes) {
    if (::getuid() != 0)
        GTEST_SKIP() << "only root gives files to a group";
    commit(first);
    const auto granted = grant_access(state, group);
    ASSERT_TRUE(granted) << granted.error().what;
    const mode_t strict = ::umask(0077); // incidentctl's, which adds to bundles, is the caller's
    commit(next);
    ASSERT_TRUE(incidents->amend(first, std::vector<std::pair<std::string, std::string>>{{"host/x", "y"}}));
    ::umask(strict);
    const fs::path bundles = state + "/incidents";
    EXPECT_EQ(of(state), "711 root") << "a way through, no more";
    EXPECT_EQ(of(bundles), "2750 nogroup");
    for (const std::string &name : {first, next}) {
        EXPECT_EQ(of(bundles / name), "2750 nogroup");
        EXPECT_EQ(of(bundles / name / "process"), "2750 nogroup");
        EXPECT_EQ(of(bundles / name / "process/maps"), "640 nogroup");
        EXPECT_EQ(of(bundles / name / "MANIFEST"), "640 nogroup");
    }
    EXPECT_EQ(of(bundles / first / "host/x"), "640 nogroup");

    ASSERT_TRUE(grant_access(state, ""));
    EXPECT_EQ(of(state), "700 root");
    EXPECT_EQ(of(bundles), "700 root");
    const std::string last = "20261122T013002.000Z-crash-two-14-abcdef";
    commit(last);
    EXPECT_EQ(of(bundles / last / "process/maps"), "600 root");
}

TEST_F(AccessTest, WithoutAGroupNothingIsChanged) {
    fs::permissions(state, fs::perms(0755)); // somebody's own decision
    ASSERT_TRUE(grant_access(state, ""));
    EXPECT_EQ(fs::status(state).permissions(), fs::perms(0755));
}

TEST_F(AccessTest, AGroupThatIsNotThere) {
    const auto granted = grant_access(state, "no-such-group");
    ASSERT_FALSE(granted);
    EXPECT_THAT(granted.error().what, HasSubstr("[access] group = \"no-such-group\": no such group"));
    EXPECT_EQ(fs::status(state + "/incidents").permissions(), fs::perms(0700));
}

} // namespace
} // namespace incident::daemon
