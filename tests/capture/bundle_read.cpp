#include "tests/capture/bundle_fixture.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstddef>

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
    EXPECT_EQ(bundle->size("a"), 5u);
    EXPECT_EQ(bundle->size("empty"), 0u);
    EXPECT_EQ(bundle->size("none"), std::nullopt);
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

// Kernels before 5.6, and sandboxes that know openat2 not yet: all of the above once more
// in a child for which that call does not exist.
TEST_F(BundleRead, WithoutOpenat2) {
    commit();
    std::filesystem::create_symlink("/etc/passwd", at(NAME + "/link"));
    std::filesystem::create_directory_symlink("/etc", at(NAME + "/etc"));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
                              BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
                              BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
        const sock_fprog program{4, code};
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            ::_exit(77);
        const auto bundle = dir.bundle(NAME);
        if (!bundle || !bundle->read("process/maps") || !bundle->read("host/pressure/cpu"))
            ::_exit(1);
        for (const char *path :
             {"link", "etc/passwd", "../x", "process/../incident.json", "/etc/passwd", "", "process/"})
            if (bundle->read(path))
                ::_exit(2);
        const std::string other = "20261121T150406.000Z-crash-a-1-b";
        auto partial = dir.begin(other);
        ::_exit(partial && partial->add("a/b", "x") && partial->commit() && read(other, "a/b") == "x" ? 0 : 3);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        GTEST_SKIP() << "seccomp filters are not allowed here";
    EXPECT_EQ(status, 0);
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
    std::filesystem::create_directories(at(NAME + "/a/b/c/d/e"));
    EXPECT_THAT(verify(),
                UnorderedElementsAre("process/maps: changed (SHA-256 differs)", "host/pressure/cpu: 18 bytes, not 4",
                                     "process/extra: not in MANIFEST", ".hidden: not in MANIFEST",
                                     "incident.json: missing", "link: a symbolic link", "a/b/c/d: not in MANIFEST"));
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
