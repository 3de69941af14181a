// Files as processes name them: never out of their root, never what has effects, never another than was mapped.
#include "capture/os/process_files.h"

#include "capture/os/dir_at.h"
#include "capture/os/maps.h"
#include "capture/os/proc_file.h"
#include "capture/os/process_dir.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace incident::capture {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ProcessFiles : public testing::Test {
protected:
    ProcessFiles() {
        char path[] = "/tmp/incidentd-test-XXXXXX";
        root = ::mkdtemp(path);
    }
    ~ProcessFiles() override { fs::remove_all(root); }
    void write(const std::string &name, const std::string &text) const { std::ofstream(root / name) << text; }
    static std::string text_of(const Result<UniqueFd> &file) {
        char text[64] = {};
        return file && ::pread(file->get(), text, sizeof(text) - 1, 0) >= 0 ? text
               : file                                                       ? "?"
                                                                            : "error: " + file.error().what;
    }
    std::string in_root(const std::string &path) const {
        const UniqueFd top(::open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        return text_of(open_regular(top.get(), path));
    }
    fs::path root;
};

TEST_F(ProcessFiles, LinksResolveBelowTheRoot) {
    fs::create_directory(root / "etc");
    write("etc/hostname", "inside");
    fs::create_symlink("/etc/hostname", root / "absolute");
    fs::create_symlink("../../../../../etc/hostname", root / "etc/upward");
    fs::create_symlink("/proc/self/root/etc/hostname", root / "by_procfs");
    fs::create_symlink("/usr/bin/env", root / "elsewhere");
    EXPECT_EQ(in_root("/etc/hostname"), "inside");
    EXPECT_EQ(in_root("/absolute"), "inside");
    EXPECT_EQ(in_root("/etc/upward"), "inside");
    EXPECT_EQ(in_root("/../../etc/hostname"), "inside");
    EXPECT_THAT(in_root("/by_procfs"), HasSubstr("error: No such file"));
    EXPECT_THAT(in_root("/elsewhere"), HasSubstr("error: No such file"));
    const UniqueFd proc(::open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
    EXPECT_THAT(text_of(open_regular(proc.get(), "/self/root/etc/hostname")), HasSubstr("error: Too many levels"));
}

TEST_F(ProcessFiles, OnlyRegularFilesAreOpened) {
    ASSERT_EQ(::mkfifo((root / "fifo").c_str(), 0600), 0);
    // a reader that opens it would be seen here: its writer would be let in
    for (const char *name : {"/fifo", "/"})
        EXPECT_EQ(in_root(name), "error: not a regular file") << name;
    const int writer = ::open((root / "fifo").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    EXPECT_EQ(writer, -1);
    EXPECT_EQ(text_of(open_regular(-1, "/dev/null")), "error: not a regular file");
    EXPECT_EQ(open_regular(-1, (root / "none").string()).error().code, ENOENT);
}

class MappedFile : public ProcessFiles {
protected:
    MappedFile() : self(*ProcessDir::open({}, static_cast<std::uint32_t>(::getpid()))) {}
    // As maps of this process shows it.
    Mapping map(const std::string &name, void *where = nullptr) {
        const UniqueFd fd(::open((root / name).c_str(), O_RDONLY | O_CLOEXEC));
        at = ::mmap(where, 4096, PROT_READ, MAP_PRIVATE | (where ? MAP_FIXED : 0), fd.get(), 0);
        return at == MAP_FAILED ? Mapping{} : now();
    }
    Mapping now() const {
        const auto text = read_proc_file(AT_FDCWD, "/proc/self/maps", 16u << 20);
        const auto maps = Maps::parse(text->bytes);
        const Mapping *found = maps.find(UserAddress(reinterpret_cast<std::uintptr_t>(at)));
        return found ? *found : Mapping{};
    }
    void SetUp() override {
        if (::geteuid() != 0)
            GTEST_SKIP() << "/proc/PID/map_files is root's";
    }
    ProcessDir self;
    void *at = nullptr;
};

TEST_F(MappedFile, IsFoundThoughItBeDeletedOrReplaced) {
    write("lib", "mapped");
    const Mapping mapping = map("lib");
    EXPECT_EQ(text_of(open_mapped(self.fd(), mapping)), "mapped");
    EXPECT_EQ(text_of(open_mapped(-1, mapping)), "mapped") << "it stands there still";
    write("other", "other");
    fs::rename(root / "other", root / "lib");
    EXPECT_EQ(text_of(open_mapped(self.fd(), mapping)), "mapped");
    EXPECT_EQ(text_of(open_mapped(self.fd(), now())), "mapped") << "\"… (deleted)\"";
    EXPECT_THAT(text_of(open_mapped(-1, mapping)), HasSubstr("error: the process has ended, and what stands at this "
                                                             "path here is another file"));
    fs::remove(root / "lib");
    EXPECT_THAT(text_of(open_mapped(-1, mapping)), HasSubstr("error: No such file"));
    ::munmap(at, 4096);
}

TEST_F(MappedFile, IsNotWhatIsMappedThereNow) {
    write("lib", "mapped");
    write("other", "other");
    const Mapping before = map("lib");
    map("other", at);
    EXPECT_EQ(text_of(open_mapped(self.fd(), before)), "error: another file is mapped there now");
    ::munmap(at, 4096);
    EXPECT_EQ(text_of(open_mapped(self.fd(), before)), "mapped") << "what its path leads to is shown to be it";
    fs::rename(root / "other", root / "lib");
    EXPECT_EQ(text_of(open_mapped(self.fd(), before)), "error: another file stands at its path now");
}

} // namespace
} // namespace incident::capture
