// The parts of mini.core; and hostile files and images, which must not harm it.
#include "postmortem/image/debugger_files.h"
#include "postmortem/image/link_map.h"
#include "postmortem/image/loaded_modules.h"
#include "postmortem/image/mini_core.h"
#include "state.h"

#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace incident::postmortem::test {

using testing::Contains;
using testing::HasSubstr;

namespace {

ElfReader reader_of_bytes(const std::string &bytes) {
    return [&bytes](std::uint64_t offset, std::span<char> into) {
        if (offset > bytes.size() || into.size() > bytes.size() - offset)
            return false;
        std::copy_n(bytes.data() + offset, into.size(), into.data());
        return true;
    };
}

ImageThread thread(std::uint32_t tid, std::uint64_t rsp) {
    ImageThread thread;
    thread.tid = tid;
    thread.registers = user_regs_struct{};
    thread.registers->cs = 0x33;
    thread.registers->rsp = rsp;
    thread.registers->fs_base = 0x7f0000000000 + tid * 0x10000;
    return thread;
}

// The running test program as an image: its own mappings and auxiliary vector.
CrashImage own_image() {
    CrashImage image;
    image.pid = static_cast<std::uint32_t>(::getpid());
    image.auxv = read_file("/proc/self/auxv");
    image.maps = capture::Maps::parse(read_file("/proc/self/maps"));
    image.maps_whole = true;
    for (const capture::Mapping &mapping : image.maps.all()) {
        if (!mapping.is_file())
            continue;
        if (image.modules.empty() || image.modules.back().path != mapping.path) {
            ImageModule module;
            module.path = mapping.path;
            module.start = mapping.start;
            module.first_offset = mapping.offset;
            image.modules.push_back(module);
        }
        image.modules.back().end = mapping.end;
    }
    image.threads = {thread(image.pid, 0x7ffc00001000)};
    image.memory.add(0x7ffc00001000, "the stack");
    return image;
}

std::string beginning(const std::string &path, std::size_t most) {
    std::string bytes(most, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(bytes.data(), static_cast<std::streamsize>(most));
    bytes.resize(static_cast<std::size_t>(file.gcount()));
    return bytes;
}

struct Scratch {
    State state;
    std::string path(const char *name) const { return (state.dir() / name).string(); }
};

CrashImage image_of_file(const std::string &path) {
    CrashImage image = own_image();
    image.modules.assign(1, {});
    image.modules[0].path = path;
    return image;
}

} // namespace

TEST(ElfLayout, FindsWhereAFileWasLoaded) {
    const CrashImage image = own_image();
    std::vector<std::string> notes;
    const std::vector<ModuleFile> files = open_module_files(image);
    const LoadedModules modules(image, files, notes);
    ASSERT_TRUE(modules.executable_elf());
    const LoadedElf &program = *modules.executable_elf();
    // what the kernel itself says of it
    EXPECT_EQ((program.layout.entry + program.bias).value, image.aux(AT_ENTRY));
    EXPECT_EQ((program.layout.headers_address().value() + program.bias).value, image.aux(AT_PHDR));
    EXPECT_EQ(program.layout.headers, image.aux(AT_PHNUM));
    EXPECT_EQ(modules.loader_address().value, image.aux(AT_BASE));
    EXPECT_THAT(modules.interpreter(), HasSubstr("ld-linux"));
}

TEST(ElfLayout, AProgramThatIsNotWhereItSaysHasNoBias) {
    ElfLayout layout;
    layout.segments = {{PT_LOAD, PF_R, FileOffset(0x1234), 0x2000, LinkAddress(0x401234), 0x2000}};
    EXPECT_EQ(layout.bias(UserAddress(0x401000), FileOffset(0x1000)), LoadBias());
    EXPECT_EQ(layout.bias(UserAddress(0x402000), FileOffset(0x2000)), LoadBias());
    EXPECT_EQ(layout.bias(UserAddress(0x501000), FileOffset(0x1000)), std::nullopt);
    layout.relocatable = true;
    EXPECT_EQ(layout.bias(UserAddress(0x501000), FileOffset(0x1000)), LoadBias(0x100000));
    EXPECT_EQ(layout.bias(UserAddress(0x501000), FileOffset(0x8000)), std::nullopt);
}

// The headers of an i386 program with one segment, as a linker writes them.
std::string i386_file() {
    Elf32_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS32;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_type = ET_EXEC;
    header.e_machine = EM_386;
    header.e_entry = 0x8049000;
    header.e_phoff = sizeof header;
    header.e_phentsize = sizeof(Elf32_Phdr);
    header.e_phnum = 1;
    const Elf32_Phdr load{PT_LOAD, 0, 0x8048000, 0x8048000, 0x2000, 0x2000, PF_R | PF_X, 0x1000};
    std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
    bytes.append(reinterpret_cast<const char *>(&load), sizeof load);
    bytes.resize(0x2000);
    return bytes;
}

TEST(ElfLayout, ReadsFilesOfI386) {
    const std::string bytes = i386_file();
    const auto layout = read_elf_layout(reader_of_bytes(bytes));
    ASSERT_TRUE(layout) << layout.error().what;
    EXPECT_EQ(layout->isa, Isa::i386);
    EXPECT_EQ(layout->entry, LinkAddress(0x8049000));
    EXPECT_EQ(layout->headers_size(), sizeof(Elf32_Phdr));
    EXPECT_EQ(layout->headers_address(), LinkAddress(0x8048000 + sizeof(Elf32_Ehdr)));
    ASSERT_EQ(layout->segments.size(), 1u);
    EXPECT_EQ(layout->segments[0].flags, PF_R | PF_X) << "which stand elsewhere than in a 64-bit file";
    EXPECT_EQ(layout->bias(UserAddress(0x8048000), FileOffset()), LoadBias());
    std::string x32 = bytes;
    x32[offsetof(Elf32_Ehdr, e_machine)] = EM_X86_64;
    EXPECT_FALSE(read_elf_layout(reader_of_bytes(x32)));
}

// i386's user_regs_struct32 order, by what gdb and eu-readelf make of it in mini_core_test.cpp.
TEST(MiniCoreParts, OfI386HasNothingBeyondItsAddresses) {
    CrashImage image;
    image.isa = Isa::i386;
    image.pid = 7;
    image.uid = 100000;
    ImageThread &only = image.threads.emplace_back(thread(7, 0xffffc000));
    only.registers->cs = 0x23;
    only.registers->rax = 0xffffffff'00000005;
    image.memory.add(0xffffc000, "the stack");
    image.memory.add(0x7f0000000000, "of 64-bit code");
    image.maps = capture::Maps::parse("7f0000000000-7f0000001000 r-xp 00000000 08:01 77 /far\n"
                                      "ffff0000-ffffd000 rw-p 00000000 00:00 0 [stack]\n");
    const auto core = make_mini_core(image, {});
    ASSERT_TRUE(core) << core.error().what;
    EXPECT_THAT(core->notes, Contains(HasSubstr("no addresses beyond 4 GiB")));
    Elf32_Ehdr header;
    std::memcpy(&header, core->bytes.data(), sizeof header);
    EXPECT_EQ(header.e_ident[EI_CLASS], ELFCLASS32);
    EXPECT_EQ(header.e_machine, EM_386);
    ASSERT_EQ(header.e_phnum, 2); // the notes and the stack
    Elf32_Phdr segment;
    std::memcpy(&segment, core->bytes.data() + header.e_phoff + sizeof segment, sizeof segment);
    EXPECT_EQ(segment.p_vaddr, 0xffffc000u);
    EXPECT_EQ(core->bytes.substr(segment.p_offset, segment.p_filesz), "the stack");
    EXPECT_FALSE(core->bytes.contains("/far"));
}

TEST(MiniCoreParts, OfCodeOfAnotherWidthThereIsNone) {
    CrashImage image;
    image.threads = {thread(7, 0xffffc000)};
    const std::uint32_t narrow[] = {AT_SYSINFO, 0xf7fc4550, AT_NULL, 0};
    image.auxv.assign(reinterpret_cast<const char *>(narrow), sizeof narrow);
    image.isa = isa_of(image); // cs is that of 64-bit code
    const auto x32 = make_mini_core(image, {});
    ASSERT_FALSE(x32);
    EXPECT_THAT(x32.error().what, HasSubstr("x32"));
    image.auxv.clear();
    const std::uint64_t wide[] = {AT_SYSINFO_EHDR, 0x7ffff7fc1000, AT_NULL, 0};
    image.auxv.assign(reinterpret_cast<const char *>(wide), sizeof wide);
    image.threads[0].registers->cs = 0x23;
    image.isa = isa_of(image);
    const auto gone_over = make_mini_core(image, {});
    ASSERT_FALSE(gone_over);
    EXPECT_THAT(gone_over.error().what, HasSubstr("in 32-bit code"));
}

TEST(LinkMap, OfA32BitProcessHasItsWords) {
    const std::vector<LinkMapEntry> entries{{"", LoadBias(), UserAddress(0x804c000)},
                                            {"/lib/libc.so.6", LoadBias(0xf7c00000), UserAddress(0xf7e00000)}};
    const LinkMap map = make_link_map(entries, UserAddress(0x10000), UserAddress(0xf7fc6000), Isa::i386);
    EXPECT_EQ(map.debug.size(), 20u); // struct r_debug of <link.h>, of five words
    std::uint32_t words[5];
    std::memcpy(words, map.debug.data(), sizeof words);
    EXPECT_EQ(words[4], 0xf7fc6000u) << "r_ldbase";
    ASSERT_EQ(map.pieces.size(), 3u);
    EXPECT_EQ(map.pieces[0].address.value, words[1]) << "r_map";
    std::memcpy(words, map.pieces[0].bytes.data(), sizeof words);
    EXPECT_EQ(words[2], 0x804c000u) << "l_ld";
    EXPECT_EQ(words[3], map.pieces[1].address.value) << "l_next";
    const std::uint32_t dynamic[] = {DT_STRTAB, 0x1000, DT_DEBUG, 0, DT_NULL, 0};
    const std::string bytes(reinterpret_cast<const char *>(dynamic), sizeof dynamic);
    EXPECT_EQ(debug_entry(bytes, Isa::i386), 12u);
    const std::string moved = relocated_dynamic(bytes, LoadBias(0x56555000), Isa::i386);
    std::memcpy(words, moved.data(), sizeof words);
    EXPECT_EQ(words[1], 0x56556000u);
    EXPECT_EQ(words[3], 0u) << "no address";
    EXPECT_EQ(unused_address({}, {}, {{UserAddress(0x10000), UserAddress(0xffffe000)}}, 1, Isa::i386), std::nullopt);
}

TEST(ElfLayout, RefusesWhatIsNoElfFileOfThisMachine) {
    std::string bytes = beginning("/proc/self/exe", 4096);
    ASSERT_TRUE(read_elf_layout(reader_of_bytes(bytes)));
    std::string other = bytes;
    other[EI_CLASS] = ELFCLASS32;
    EXPECT_FALSE(read_elf_layout(reader_of_bytes(other)));
    other = bytes;
    other[16] = ET_CORE;
    EXPECT_FALSE(read_elf_layout(reader_of_bytes(other)));
    other = bytes.substr(0, 100);
    EXPECT_FALSE(read_elf_layout(reader_of_bytes(other)));
    EXPECT_FALSE(read_elf_layout(reader_of_bytes("")));
}

TEST(LinkMap, StandsWhereNothingIs) {
    const capture::Maps maps = capture::Maps::parse("00010000-00020000 r--p 00000000 00:00 0\n"
                                                    "00022000-00400000 r--p 00000000 00:00 0\n");
    ImageMemory memory;
    memory.add(0x401000, "known");
    EXPECT_EQ(unused_address({}, {}, {}, 100), UserAddress(0x10000));
    // the hole between the first two is too small for it and a page on both sides
    EXPECT_EQ(unused_address(maps, memory, {}, 0x2000), UserAddress(0x403000));
    EXPECT_EQ(unused_address(maps, memory, {{UserAddress(0x402000), UserAddress(0x500000)}}, 0x2000),
              UserAddress(0x501000));
    EXPECT_EQ(unused_address({}, {}, {{UserAddress(0x10000), UserAddress(UINT64_MAX)}}, 1), std::nullopt);
    EXPECT_EQ(unused_address({}, {}, {}, UINT64_MAX), std::nullopt);
}

TEST(ModuleFiles, OnlyRegularFilesAndNothingThatWaits) {
    const Scratch scratch;
    ASSERT_EQ(::mkfifo(scratch.path("fifo").c_str(), 0600), 0);
    EXPECT_THAT(open_module_files(image_of_file(scratch.path("fifo"))).at(0).problem, HasSubstr("not a regular file"));
    EXPECT_THAT(open_module_files(image_of_file("/dev/zero")).at(0).problem, HasSubstr("not a regular file"));
    EXPECT_THAT(open_module_files(image_of_file(scratch.path("gone"))).at(0).problem, HasSubstr("missing"));
}

TEST(ModuleFiles, WhereItLayOnTheHost) {
    const Scratch scratch;
    write_file(scratch.path("layer"), "x");
    struct stat status {};
    ASSERT_EQ(::stat(scratch.path("layer").c_str(), &status), 0);
    CrashImage image = image_of_file("/not/here/app");
    ImageModule &module = image.modules[0];
    module.inode = status.st_ino, module.major = 0, module.minor = 40; // an overlay has a device of its own
    EXPECT_FALSE(open_module_files(image).at(0).file);
    module.on_host = scratch.path("layer");
    EXPECT_TRUE(open_module_files(image).at(0).file);
    EXPECT_EQ(open_module_files(image).at(0).path, module.on_host);
    ++module.inode;
    EXPECT_FALSE(open_module_files(image).at(0).file) << "another file";
    --module.inode;
    module.build_id = "12";
    EXPECT_FALSE(open_module_files(image).at(0).file) << "it has no build-id, and the mapped one had";
    module.build_id.clear();
    EXPECT_FALSE(open_module_files(image, scratch.state.dir()).at(0).file) << "that is below another root";
    const std::string name = scratch.path("layer\nshell true");
    std::filesystem::copy_file(scratch.path("layer"), name);
    ASSERT_EQ(::stat(name.c_str(), &status), 0);
    module.inode = status.st_ino, module.on_host = name;
    EXPECT_FALSE(open_module_files(image).at(0).file) << "gdb would run what follows the line break";
    ASSERT_EQ(::mkfifo(scratch.path("fifo").c_str(), 0600), 0);
    module.on_host = scratch.path("fifo");
    EXPECT_FALSE(open_module_files(image).at(0).file);
}

class DebuggerFilesTest : public testing::Test {
protected:
    DebuggerFilesTest() { std::filesystem::create_directory(made_); }

    // A module that the process saw at `path`, and whose file is at `file` here.
    void add(const std::string &path, const std::string &file, bool kept = false) {
        ImageModule module;
        module.path = path;
        image_.modules.push_back(module);
        ModuleFile opened;
        opened.file = UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        opened.path = file;
        opened.kept = kept;
        files_.push_back(std::move(opened));
    }
    DebuggerFiles make() {
        auto made = debugger_files(image_, files_, made_);
        EXPECT_TRUE(made);
        return made ? std::move(*made) : DebuggerFiles();
    }

    const Scratch scratch_;
    const std::string made_ = scratch_.path("made");
    CrashImage image_;
    std::vector<ModuleFile> files_;
};

TEST_F(DebuggerFilesTest, NothingIsMadeWhereAllIsAtItsPath) {
    image_.exe = "/bin/app";
    add("/bin/app", "/bin/app");
    const DebuggerFiles made = make();
    EXPECT_EQ(made.sysroot + made.list + made.executable + made.warning, "");
    EXPECT_TRUE(std::filesystem::is_empty(made_));
}

TEST_F(DebuggerFilesTest, AContainersFilesHaveLinksAtTheirPaths) {
    image_.exe = "/opt/app (deleted)";
    add("/opt/app", "/layers/1/opt/app");
    add("/lib/libx.so.1", "/lib/libx.so.1");
    add("/a/liby.so", "/layers/1/a/liby.so");
    add("/b/liby.so", "/layers/1/b/liby.so");
    const DebuggerFiles made = make();
    EXPECT_EQ(made.executable, "/layers/1/opt/app");
    EXPECT_EQ(std::filesystem::read_symlink(made.sysroot + "/opt/app"), "/layers/1/opt/app");
    EXPECT_EQ(std::filesystem::read_symlink(made.sysroot + "/lib/libx.so.1"), "/lib/libx.so.1");
    EXPECT_EQ(std::filesystem::read_symlink(made.libraries + "/libx.so.1"), "/lib/libx.so.1");
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(made.libraries + "/liby.so")))
        << "which of the two is not known";
}

TEST_F(DebuggerFilesTest, OfACopyTheReaderIsTold) {
    image_.exe = "/opt/app";
    add("/opt/app", "/kept/none.12", true);
    const DebuggerFiles made = make();
    EXPECT_EQ(made.executable, "");
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(made.sysroot + "/opt")));
    EXPECT_THAT(made.warning, HasSubstr("no code and no data"));
    EXPECT_THAT(beginning(made.list, 4096), HasSubstr("\"copy\":true"));
}

// As deep a tree as a bundle names would stay in the temporary directory.
TEST_F(DebuggerFilesTest, NoTreeIsMadeThatIsHardToRemove) {
    std::string deep, longer = "/" + std::string(200, 'x');
    for (int i = 0; i < 1000; ++i)
        deep += "/a";
    while (longer.size() < 8000)
        longer += "/" + std::string(200, 'x');
    add(deep, "/layers/1/x");
    add(longer, "/layers/1/x");
    const DebuggerFiles made = make();
    EXPECT_FALSE(std::filesystem::exists(made.sysroot + "/a"));
    EXPECT_FALSE(std::filesystem::exists(made.sysroot + longer.substr(0, 201)));
}

// A debugger would take the new library for the old one: what it says then is of neither.
TEST_F(DebuggerFilesTest, AnotherFileAtAPathIsNotFoundThere) {
    image_.exe = "/bin/app";
    add("/bin/app", "/bin/app");
    add("/lib/libx.so.1", "");
    files_[1].file.reset();
    files_[1].changed = true;
    const DebuggerFiles made = make();
    EXPECT_EQ(made.executable, "/bin/app");
    EXPECT_TRUE(std::filesystem::is_symlink(made.sysroot + "/bin/app"));
    EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(made.sysroot + "/lib/libx.so.1")));
}

TEST_F(DebuggerFilesTest, AFileThatIsMappedTwiceIsOne) {
    add("/opt/lib.so", "/layers/1/opt/lib.so");
    add("/opt/lib.so", "/layers/1/opt/lib.so");
    EXPECT_TRUE(std::filesystem::is_symlink(make().libraries + "/lib.so"));
}

// The paths are a bundle's, which may come from elsewhere; whoever opens it may be root.
TEST_F(DebuggerFilesTest, NoLinkIsMadeOutsideOrThroughALink) {
    std::filesystem::create_directory(scratch_.path("victim"));
    for (const char *path : {"/../../victim/x", "/a/../../victim/x", "/a/./x", "/.", "/", "", "/a/"})
        add(path, "/layers/x");
    add("/door", scratch_.path("victim"));
    add("/door/x", "/layers/x");
    const DebuggerFiles made = make();
    EXPECT_TRUE(std::filesystem::is_empty(scratch_.path("victim")));
    EXPECT_TRUE(std::filesystem::is_symlink(made.sysroot + "/door"));
    for (const auto &entry : std::filesystem::directory_iterator(scratch_.state.dir()))
        EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("made", "victim")) << entry.path();
}

TEST(ModuleFiles, NothingLeadsOutOfTheRoot) {
    const Scratch scratch;
    write_file(scratch.path("inside"), "x");
    std::filesystem::create_symlink("/inside", scratch.path("link"));
    std::filesystem::create_symlink("../../../../etc/passwd", scratch.path("out"));
    EXPECT_TRUE(open_module_files(image_of_file("/link"), scratch.state.dir()).at(0).file);
    EXPECT_FALSE(open_module_files(image_of_file("/out"), scratch.state.dir()).at(0).file);
    EXPECT_THAT(open_module_files(image_of_file("/out"), scratch.path("nowhere")).at(0).problem, HasSubstr("nowhere"));
}

TEST(ModuleFiles, ADeletedFileIsNotTheOneThatHasItsNameNow) {
    const Scratch scratch;
    write_file(scratch.path("file"), "x");
    CrashImage image = image_of_file(scratch.path("file"));
    EXPECT_TRUE(open_module_files(image).at(0).file);
    image.modules[0].deleted = true;
    EXPECT_FALSE(open_module_files(image).at(0).file);
}

TEST(ModuleFiles, WithoutABuildIdOnlyTheVeryFileIsTaken) {
    const Scratch scratch;
    write_file(scratch.path("file"), "x");
    struct stat status {};
    ASSERT_EQ(::stat(scratch.path("file").c_str(), &status), 0);
    CrashImage image = image_of_file(scratch.path("file"));
    image.modules[0].inode = status.st_ino;
    image.modules[0].major = major(status.st_dev);
    image.modules[0].minor = minor(status.st_dev);
    EXPECT_TRUE(open_module_files(image).at(0).file);
    ++image.modules[0].inode; // a container's, or one that was replaced
    EXPECT_FALSE(open_module_files(image).at(0).file);
    EXPECT_EQ(open_module_files(image).at(0).problem, "another file stands at its path here");
    image.modules[0].path = "/file";
    EXPECT_TRUE(open_module_files(image, scratch.state.dir()).at(0).file) << "whoever names a root says that it is it";
}

TEST(MiniCoreParts, NothingToWriteIsAnError) {
    CrashImage image;
    EXPECT_THAT(make_mini_core(image, {}).error().what, HasSubstr("no thread's registers"));
    image.threads = {thread(1, 0)};
    image.threads[0].registers->cs = 0x23;
    EXPECT_THAT(make_mini_core(image, {}).error().what, HasSubstr("32-bit"));
    image.threads[0].registers->cs = 0x33;
    EXPECT_TRUE(make_mini_core(image, {})); // registers alone
}

TEST(MiniCoreParts, StacksThatDoNotFitAreLeftOutButTheFirst) {
    CrashImage image = own_image();
    const std::string stack(2u << 20, 's');
    for (std::uint32_t i = 1; i < 50; ++i) {
        image.threads.push_back(thread(image.pid + i, 0x600000000000 + i * 0x1000000ull));
        image.memory.add(image.threads.back().registers->rsp - 4096, stack);
    }
    std::swap(image.threads.front(), image.threads.back()); // the crashed one's is the last by address
    const auto core = make_mini_core(image, open_module_files(image));
    ASSERT_TRUE(core);
    EXPECT_LE(core->bytes.size(), mini_core_max);
    EXPECT_GT(core->bytes.size(), mini_core_max / 10 * 9);
    EXPECT_THAT(core->notes, Contains(HasSubstr("of 50 stacks are left out: the file would be larger than 64 MiB")));
    Elf64_Ehdr header;
    std::memcpy(&header, core->bytes.data(), sizeof header);
    bool first = false;
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        std::memcpy(&segment, core->bytes.data() + header.e_phoff + i * sizeof segment, sizeof segment);
        first |= segment.p_type == PT_LOAD && segment.p_vaddr == image.threads[0].registers->rsp - 4096;
    }
    EXPECT_TRUE(first);
}

// Files whose headers say anything, at the place of the program, of ld.so and of libc.
TEST(MiniCoreParts, HostileFilesDoNoHarm) {
    const Scratch scratch;
    CrashImage image = own_image();
    std::mt19937_64 random(7);
    for (std::size_t which = 0; which < image.modules.size(); ++which) {
        if (image.modules[which].path.find("libc.so") == std::string::npos && which != 0 &&
            image.modules[which].path.find("ld-linux") == std::string::npos)
            continue;
        const std::string original = beginning(image.modules[which].path, 2u << 20);
        Elf64_Ehdr header;
        std::memcpy(&header, original.data(), sizeof header);
        for (int round = 0; round < 200; ++round) {
            std::string bytes = original;
            if (round % 4 == 0)
                bytes.resize(random() % bytes.size());
            for (int change = 0; change < 4 && !bytes.empty(); ++change) {
                // the ELF header, the program headers, the section headers, anywhere
                const std::size_t at = change == 0   ? 16 + random() % 48
                                       : change == 1 ? 64 + random() % 700
                                       : change == 2 ? header.e_shoff + random() % 2000
                                                     : random() % bytes.size();
                if (at < bytes.size())
                    bytes[at] = static_cast<char>(round % 3 == 0 ? 0xff : random());
            }
            write_file(scratch.path("file"), bytes);
            std::vector<ModuleFile> files = open_module_files(image);
            files[which].file = UniqueFd(::open(scratch.path("file").c_str(), O_RDONLY | O_CLOEXEC));
            files[which].verified = true;
            const auto core = make_mini_core(image, files);
            ASSERT_TRUE(core) << core.error().what;
            ASSERT_LT(core->bytes.size(), 8u << 20);
        }
    }
}

TEST(MiniCoreParts, HostileImagesDoNoHarm) {
    CrashImage image = own_image();
    const std::vector<ModuleFile> files = open_module_files(image);
    std::mt19937_64 random(11);
    auto anything = [&]() -> std::uint64_t {
        const std::uint64_t edges[] = {0, 1, 4095, 0x7fffffffffff, UINT64_MAX, UINT64_MAX - 7, 1ull << 63};
        return random() % 2 ? edges[random() % std::size(edges)] : random();
    };
    for (int round = 0; round < 300; ++round) {
        CrashImage bad = image;
        for (std::size_t at = 8; at + 8 <= bad.auxv.size(); at += 16)
            if (const std::uint64_t value = anything(); random() % 3 == 0)
                std::memcpy(bad.auxv.data() + at, &value, sizeof value);
        bad.auxv.resize(bad.auxv.size() - random() % 20);
        for (int i = 0; i < 5; ++i) {
            ImageThread other = thread(static_cast<std::uint32_t>(random()), anything());
            other.registers->fs_base = anything();
            bad.threads.push_back(other);
            bad.memory.add(anything(), std::string(random() % 5000, static_cast<char>(random())));
        }
        std::vector<capture::Mapping> mappings = bad.maps.all();
        for (capture::Mapping &mapping : mappings)
            if (random() % 4 == 0) {
                mapping.start = UserAddress(anything());
                mapping.end = UserAddress(anything());
            }
        bad.maps = capture::Maps::of(mappings);
        for (ImageModule &module : bad.modules)
            if (random() % 4 == 0)
                module.first_offset = FileOffset(anything());
        ASSERT_TRUE(make_mini_core(bad, files));
    }
}

} // namespace incident::postmortem::test
