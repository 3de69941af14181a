// Hostile files and bundles: the answer is shorter and has a note, but it comes.
#include "postmortem/unwind/analyse.h"
#include "state.h"
#include "unwind_lab.h"
#include "unwind_victims.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <gmock/gmock.h>
#include <libelf.h>
#include <sys/stat.h>

#include <random>

namespace incident::postmortem::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

class UnwindHostile : public testing::Test {
protected:
    static void SetUpTestSuite() {
        lab = new UnwindLab;
        const Victim &calls = victims[0];
        crash = new Crash(lab->crash(lab->compile("victim", calls.source, "-g -O2")));
        bytes = new std::string(read_file(lab->dir() / "victim"));
    }
    static void TearDownTestSuite() {
        delete bytes;
        delete crash;
        delete lab;
    }

    static AnalyseOptions options() {
        AnalyseOptions options;
        options.install_hints = false;
        options.cpu_seconds = 2;
        options.memory_bytes = 256u << 20;
        return options;
    }
    // The analysis with these bytes in place of the victim's file.
    static Analysis with(const std::string &file) {
        const std::filesystem::path path = lab->dir() / "hostile";
        write_file(path, file);
        std::vector<ModuleFile> files = open_module_files(crash->image);
        for (std::size_t i = 0; i < files.size(); ++i)
            if (crash->image.modules[i].path.ends_with("/victim"))
                files[i] = {.file = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)),
                            .verified = true,
                            .problem = {},
                            .path = path};
        return analyse(crash->image, files, options());
    }
    static void expect_an_answer(const Analysis &analysis) {
        ASSERT_EQ(analysis.threads.size(), crash->image.threads.size());
        ASSERT_FALSE(analysis.threads[0].frames.empty());
        EXPECT_EQ(analysis.threads[0].frames[0].ip, crash->image.threads[0].registers->rip);
        EXPECT_LE(analysis.threads[0].frames.size(), 256u);
        EXPECT_NE(analysis.threads[0].reason, "");
        EXPECT_EQ(analysis.modules.size(), crash->image.modules.size());
    }
    struct Section {
        std::uint64_t offset = 0, size = 0;
    };
    static Section section(const std::string &wanted) {
        elf_version(EV_CURRENT);
        Elf *elf = elf_memory(bytes->data(), bytes->size());
        std::size_t names = 0;
        elf_getshdrstrndx(elf, &names);
        Section found;
        for (Elf_Scn *scn = elf_nextscn(elf, nullptr); scn; scn = elf_nextscn(elf, scn)) {
            GElf_Shdr header;
            if (gelf_getshdr(scn, &header) && wanted == elf_strptr(elf, names, header.sh_name))
                found = {header.sh_offset, header.sh_size};
        }
        elf_end(elf);
        return found;
    }

    static UnwindLab *lab;
    static Crash *crash;
    static std::string *bytes;
};

UnwindLab *UnwindHostile::lab = nullptr;
Crash *UnwindHostile::crash = nullptr;
std::string *UnwindHostile::bytes = nullptr;

class BitFlips : public UnwindHostile, public testing::WithParamInterface<const char *> {};

TEST_P(BitFlips, CostANoteAtMost) {
    const Section where = GetParam()[0] ? section(GetParam()) : Section{0, bytes->size()};
    ASSERT_GT(where.size, 0u);
    std::size_t died = 0, shorter = 0;
    constexpr unsigned seeds = 24;
    for (unsigned seed = 0; seed < seeds; ++seed) {
        std::mt19937 random(seed);
        std::string hostile = *bytes;
        for (unsigned flips = 1u << (seed % 8); flips; --flips)
            hostile[where.offset + random() % where.size] ^= static_cast<char>(1u << random() % 8);
        const Analysis analysis = with(hostile);
        expect_an_answer(analysis);
        died += !analysis.notes.empty();
        shorter += analysis.threads[0].truncated;
    }
    fmt::print("{}: {} seeds, {} with a note, {} stacks end early\n", GetParam()[0] ? GetParam() : "anywhere", seeds,
               died, shorter);
}

INSTANTIATE_TEST_SUITE_P(Sections, BitFlips,
                         testing::Values(".eh_frame", ".eh_frame_hdr", ".debug_info", ".debug_abbrev", ".debug_line",
                                         ".debug_rnglists", ".symtab", ".dynsym", ""),
                         [](const testing::TestParamInfo<const char *> &section) {
                             std::string name = section.param;
                             std::erase(name, '.');
                             return name.empty() ? "anywhere" : name;
                         });

TEST_F(UnwindHostile, TruncatedAnywhere) {
    for (std::size_t length = 0; length < bytes->size(); length += 1 + bytes->size() / 64)
        expect_an_answer(with(bytes->substr(0, length)));
}

TEST_F(UnwindHostile, RandomBytesWithAnElfHeader) {
    for (unsigned seed = 0; seed < 16; ++seed) {
        std::mt19937 random(seed);
        std::string hostile = *bytes;
        for (std::size_t i = sizeof(Elf64_Ehdr); i < hostile.size(); ++i)
            hostile[i] = static_cast<char>(random());
        const Analysis analysis = with(hostile);
        expect_an_answer(analysis);
        EXPECT_TRUE(analysis.threads[0].truncated);
    }
}

TEST_F(UnwindHostile, HugeCounts) {
    const auto set = [&](auto member, auto value) {
        std::string hostile = *bytes;
        auto *header = reinterpret_cast<Elf64_Ehdr *>(hostile.data());
        header->*member = value;
        expect_an_answer(with(hostile));
    };
    set(&Elf64_Ehdr::e_shnum, std::uint16_t{0xfeff});
    set(&Elf64_Ehdr::e_phnum, std::uint16_t{0xfffe});
    set(&Elf64_Ehdr::e_phnum, std::uint16_t{PN_XNUM});
    set(&Elf64_Ehdr::e_shoff, ~std::uint64_t{0});
    set(&Elf64_Ehdr::e_phoff, ~std::uint64_t{0} - 8);
    set(&Elf64_Ehdr::e_shstrndx, std::uint16_t{0xffff});
    set(&Elf64_Ehdr::e_shentsize, std::uint16_t{1});
    // 2^64 sections, by the escape in the first one's size
    std::string hostile = *bytes;
    auto *header = reinterpret_cast<Elf64_Ehdr *>(hostile.data());
    header->e_shnum = 0;
    reinterpret_cast<Elf64_Shdr *>(hostile.data() + header->e_shoff)->sh_size = ~std::uint64_t{0};
    expect_an_answer(with(hostile));
}

// Debug information whose tree never ends costs that module's names, not its stack.
TEST_F(UnwindHostile, AnEndlessTreeCostsNames) {
    const std::string source = R"(
        .text
        .globl endless
endless: .cfi_startproc
        sub $24,%rsp
        .cfi_adjust_cfa_offset 24
        mov 0,%eax
        add $24,%rsp
        .cfi_adjust_cfa_offset -24
        ret
        .cfi_endproc
.Lend:  .size endless,.-endless
        .type endless,@function
        .section .debug_abbrev,"",@progbits
        .uleb128 1,0x11,1,0x11,1,0x12,1,0,0        # a unit: low_pc, high_pc
        .uleb128 2,0x39,1,1,0x13,0,0               # a namespace with a sibling
        .uleb128 0
        .section .debug_info,"",@progbits
.Lcu:   .long .Lcu_end-.Lver
.Lver:  .value 4
        .long .debug_abbrev
        .byte 8
        .uleb128 1
        .quad endless, .Lend
.Lns:   .uleb128 2
        .long .Lns-.Lcu                            # its sibling is itself
        .byte 0
        .byte 0
.Lcu_end:
)";
    write_file(lab->dir() / "endless.s", source);
    ASSERT_EQ(lab->shell("printf 'void endless(void); int main(void) { endless(); return 1; }' > m.c && gcc -O1 m.c "
                         "endless.s -o endless"),
              0);
    const Crash looped = lab->crash(lab->dir() / "endless");
    const Analysis analysis = analyse(looped.image, open_module_files(looped.image), options());
    ASSERT_GE(analysis.threads[0].frames.size(), 4u);
    EXPECT_EQ(analysis.threads[0].frames[0].symbol, "endless");
    EXPECT_EQ(analysis.threads[0].frames[1].symbol, "main");
    EXPECT_FALSE(analysis.threads[0].truncated) << analysis.threads[0].reason;
}

// A child that needs too much memory is blamed on what it was reading, and the next does without.
TEST_F(UnwindHostile, TheModuleThatEndsAChildIsLeftOut) {
    for (std::uint64_t mib = 4; mib <= 32; ++mib) { // from less than libc's debug information takes
        AnalyseOptions small = options();
        small.memory_bytes = mib << 20;
        const Analysis analysis = analyse(crash->image, open_module_files(crash->image), small);
        expect_an_answer(analysis);
        EXPECT_FALSE(analysis.threads[0].truncated)
            << mib << " MiB: " << analysis.threads[0].reason << fmt::format("\n{}", fmt::join(analysis.notes, "\n"));
        EXPECT_EQ(analysis.threads[0].frames[0].symbol, "innermost") << mib << " MiB";
    }
}

TEST_F(UnwindHostile, OtherThanRegularFilesAreNotOpened) {
    CrashImage image;
    const std::filesystem::path fifo = lab->dir() / "fifo";
    ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
    for (const std::string &path : {fifo.string(), std::string("/dev/zero"), lab->dir().string(),
                                    std::string("/nowhere"), std::string("relative")}) {
        ImageModule &module = image.modules.emplace_back();
        module.path = path;
        module.build_id = "abcd";
    }
    const auto files = open_module_files(image);
    ASSERT_EQ(files.size(), 5u);
    EXPECT_EQ(files[0].problem, "not a regular file");
    EXPECT_EQ(files[1].problem, "not a regular file");
    EXPECT_EQ(files[2].problem, "not a regular file");
    EXPECT_EQ(files[3].problem, "missing");
    EXPECT_NE(files[4].problem, "");
    for (const ModuleFile &file : files)
        EXPECT_FALSE(file.file);
}

TEST_F(UnwindHostile, RegistersAndMemoryMayBeAnything) {
    const auto files = open_module_files(crash->image);
    for (unsigned seed = 0; seed < 40; ++seed) {
        std::mt19937_64 random(seed);
        CrashImage image = crash->image;
        auto *words = reinterpret_cast<std::uint64_t *>(&*image.threads[0].registers);
        const std::uint64_t rip = image.threads[0].registers->rip, rsp = image.threads[0].registers->rsp;
        for (std::size_t i = 0; i < sizeof(user_regs_struct) / sizeof *words; ++i)
            if (random() % 2)
                words[i] = random() % 3 ? random() : ~std::uint64_t{0} - random() % 16;
        if (seed % 2)
            image.threads[0].registers->rip = rip;
        if (seed % 3)
            image.threads[0].registers->rsp = rsp;
        // A stack of pointers into the code and into itself.
        if (seed % 4 == 3) {
            std::string stack(64u << 10, '\0');
            for (std::size_t at = 0; at < stack.size(); at += 8) {
                const std::uint64_t word = random() % 2 ? rip + random() % 256 : rsp + random() % stack.size();
                std::memcpy(stack.data() + at, &word, sizeof word);
            }
            ImageMemory memory;
            memory.add(rsp, stack);
            image.memory = memory;
        }
        const Analysis analysis = analyse(image, files, options());
        ASSERT_EQ(analysis.threads.size(), 1u);
        EXPECT_FALSE(analysis.threads[0].frames.empty());
        EXPECT_LE(analysis.threads[0].frames.size(), 256u);
        EXPECT_TRUE(analysis.notes.empty()) << fmt::format("{}", fmt::join(analysis.notes, "\n"));
    }
}

TEST_F(UnwindHostile, WithoutFilesOnlyTheInstructionPointerIsTrue) {
    const Analysis analysis = analyse(crash->image, {}, options());
    expect_an_answer(analysis);
    EXPECT_TRUE(analysis.threads[0].truncated);
    EXPECT_THAT(analysis.threads[0].reason, HasSubstr("/victim"));
    EXPECT_THAT(analysis.threads[0].frames[0].module, HasSubstr("/victim"));
    EXPECT_NE(analysis.threads[0].frames[0].offset, 0u);
}

TEST_F(UnwindHostile, NoTimeGivesInstructionPointers) {
    AnalyseOptions none = options();
    none.time = std::chrono::milliseconds(0);
    const Analysis analysis = analyse(crash->image, open_module_files(crash->image), none);
    expect_an_answer(analysis);
    EXPECT_EQ(analysis.threads[0].how, "instruction pointer only");
}

// A program that says that it is another one, whose debug information is installed.
TEST_F(UnwindHostile, ABorrowedBuildIdGivesNoNames) {
    lab->compile("other",
                 "__attribute__((naked)) void of_another(void) { asm(\".fill 8000, 1, 0x90\"); }\n"
                 "int main(void) { return 0; }\n",
                 "-g -O1 -Wl,--build-id=0xabcdef0123456789");
    const std::string root = (lab->dir() / "debug").string();
    ASSERT_EQ(lab->shell("mkdir -p debug/.build-id/ab && objcopy --only-keep-debug other "
                         "debug/.build-id/ab/cdef0123456789.debug"),
              0);
    AnalyseOptions with_root = options();
    with_root.debug_root = root;
    for (const bool borrowed : {true, false}) {
        const std::string flags = std::string("-O2 -s -Wl,--build-id=0x") + (borrowed ? "ab" : "ac") + "cdef0123456789";
        const Crash liar = lab->crash(lab->compile("liar", victims[0].source, flags));
        const Analysis analysis = analyse(liar.image, open_module_files(liar.image), with_root);
        for (const Frame &frame : analysis.threads[0].frames)
            EXPECT_NE(frame.symbol, "of_another") << borrowed;
        const std::string notes = fmt::format("{}", fmt::join(analysis.notes, "\n"));
        if (borrowed) {
            EXPECT_THAT(notes, HasSubstr("has the build-id of another file"));
        }
    }
}

TEST_F(UnwindHostile, NothingAtAllIsNoCrash) {
    const CrashImage empty;
    EXPECT_TRUE(analyse(empty, {}, options()).threads.empty());
    CrashImage bare;
    bare.threads.resize(2);
    bare.threads[1].registers.emplace();
    const Analysis analysis = analyse(bare, {}, options());
    ASSERT_EQ(analysis.threads.size(), 2u);
    EXPECT_EQ(analysis.threads[0].reason, "registers not captured");
    EXPECT_EQ(analysis.threads[0].how, "none");
    EXPECT_EQ(analysis.threads[1].frames.size(), 1u);
}

} // namespace
} // namespace incident::postmortem::test
