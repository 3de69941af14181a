// Which files are taken for cores of systemd-coredump.
#include "capture/core/stored_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace incident::capture {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr uid_t EVE = 12345;

class StoredCores : public testing::Test {
protected:
    StoredCores() {
        char path[] = "/tmp/incidentd-test-XXXXXX";
        root = ::mkdtemp(path);
        os.coredump = root / "coredump";
        os.coredump_owner = ::geteuid();
        fs::create_directory(os.coredump);
        ::chmod(os.coredump.c_str(), 0755);
        core = os.coredump + "/core.app.0.zst";
        write(core);
    }
    ~StoredCores() override { fs::remove_all(root); }
    static void write(const std::string &file, mode_t mode = 0640) {
        std::ofstream(file) << "bytes";
        ::chmod(file.c_str(), mode);
    }
    std::string why_not(const std::string &file) const {
        const auto found = find_stored_core(os, file);
        return found ? "" : found.error().what;
    }
    fs::path root;
    OsRoots os;
    std::string core;
};

TEST_F(StoredCores, AreOpenedByWhatWasChecked) {
    const auto found = find_stored_core(os, core);
    ASSERT_TRUE(found) << found.error().what;
    EXPECT_EQ(found->bytes, 5u);
    fs::rename(core, core + ".old");
    std::ofstream(core) << "others"; // under the name stands another one now
    const auto fd = open_stored_core(*found);
    ASSERT_TRUE(fd) << fd.error().what;
    char bytes[16] = {};
    EXPECT_EQ(::read(fd->get(), bytes, sizeof bytes), 5);
    EXPECT_STREQ(bytes, "bytes");
}

TEST_F(StoredCores, AreNowhereElse) {
    write(root / "core");
    fs::create_directory(os.coredump + "/sub");
    write(os.coredump + "/sub/core");
    for (const std::string &file :
         {std::string(), std::string("core"), (root / "core").string(), os.coredump, os.coredump + "/",
          os.coredump + "/.", os.coredump + "/..", os.coredump + "/../core", os.coredump + "/sub/core",
          os.coredump + "//core.app.0.zst", std::string("/etc/shadow"), core + std::string("\0x", 2)})
        EXPECT_THAT(why_not(file), HasSubstr("a file outside ")) << file;
    EXPECT_EQ(find_stored_core(os, core + "x").error().code, ENOENT);
}

TEST_F(StoredCores, AreNoLinks) {
    write(root / "hers");
    fs::create_symlink(root / "hers", os.coredump + "/link");
    EXPECT_EQ(why_not(os.coredump + "/link"), "the core file is a symbolic link");
    fs::create_symlink("core.app.0.zst", os.coredump + "/near");
    EXPECT_EQ(why_not(os.coredump + "/near"), "the core file is a symbolic link");
    fs::create_hard_link(root / "hers", os.coredump + "/hard");
    EXPECT_EQ(why_not(os.coredump + "/hard"),
              "the core file has 2 names (hard links), and systemd-coredump's have one");
    ASSERT_EQ(::mkfifo((os.coredump + "/fifo").c_str(), 0600), 0);
    EXPECT_EQ(why_not(os.coredump + "/fifo"), "the core file is not a regular file");
    fs::create_directory(os.coredump + "/directory");
    EXPECT_EQ(why_not(os.coredump + "/directory"), "the core file is not a regular file");
}

TEST_F(StoredCores, BelongToRootAlone) {
    for (const mode_t mode : {0660u, 0602u}) {
        write(core, mode);
        EXPECT_EQ(why_not(core), "others than its owner may write the core file");
    }
    write(core);
    if (::geteuid() != 0)
        GTEST_SKIP() << "needs root, to give files away";
    ASSERT_EQ(::chown(core.c_str(), EVE, 0), 0);
    EXPECT_EQ(why_not(core), "the core file belongs to uid 12345, and systemd-coredump's to uid 0");
}

TEST_F(StoredCores, StandWhereOnlyRootWrites) {
    const std::string why = "can put files into " + os.coredump;
    for (const mode_t mode : {0775u, 01777u}) {
        ::chmod(os.coredump.c_str(), mode);
        EXPECT_THAT(why_not(core), HasSubstr(why));
    }
    ::chmod(os.coredump.c_str(), 0755);
    EXPECT_EQ(why_not(core), "");
    // An administrator may have moved it to a larger disk.
    fs::rename(os.coredump, root / "large");
    fs::create_directory_symlink(root / "large", os.coredump);
    EXPECT_EQ(why_not(core), "");
    if (::geteuid() != 0)
        GTEST_SKIP() << "needs root, to give files away";
    ASSERT_EQ(::chown((root / "large").c_str(), EVE, 0), 0);
    EXPECT_THAT(why_not(core), HasSubstr(why));
}

TEST(StoredCoreNames, AreTakenApart) {
    const std::string boot(32, 'a'), dir = "/var/lib/systemd/coredump/";
    const std::string file = dir + "core.ba\\x2esh.1000." + boot + ".1234.1795273445000000";
    for (const char *end : {"", ".zst", ".lz4", ".xz"}) {
        const std::string stored = file + end;
        const auto name = StoredCoreName::parse(stored);
        ASSERT_TRUE(name) << stored;
        EXPECT_EQ(name->uid, 1000u);
        EXPECT_EQ(name->pid, 1234u);
        EXPECT_EQ(name->boot_id, boot);
        EXPECT_EQ(name->death.ns / 1000, 1795273445000000u);
    }
    for (const std::string &other :
         {std::string(), dir, dir + "core", dir + "core.app.zst", file + ".zst.old",
          dir + "core.a.b.0." + boot + ".1.1.zst", dir + "core.a.-1." + boot + ".1.1", dir + "core.a.0.aaaa.1.1",
          dir + "core.a.0." + boot + ".x.1", dir + ".#core.a.0." + boot + ".1.1", dir + "bore.a.0." + boot + ".1.1"})
        EXPECT_FALSE(StoredCoreName::parse(other)) << other;
}

} // namespace
} // namespace incident::capture
