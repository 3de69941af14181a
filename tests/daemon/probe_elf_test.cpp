// Names to places in ELF files, on programs that the compiler makes for each test.
#include "capture/os/unique_fd.h"
#include "daemon/probe/elf_image.h"
#include "daemon/probe/elf_soname.h"
#include "daemon/probe/probe_elf.h"
#include "daemon/probe/symbol_name.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class ProbeElf : public testing::Test {
protected:
    ProbeElf() {
        std::string name = (fs::temp_directory_path() / "probe_elf.XXXXXX").string();
        root = ::mkdtemp(name.data());
    }
    ~ProbeElf() override { fs::remove_all(root); }

    fs::path build(const std::string &source, const std::string &options, const std::string &language = "c") {
        const fs::path out = root / ("out" + std::to_string(++built));
        std::ofstream(root / "source") << source;
        run("cc -x " + language + " " + (root / "source").string() + " -x none -o " + out.string() + " " + options);
        return out;
    }
    void run(const std::string &command) {
        ASSERT_EQ(std::system(("cd " + root.string() + " && " + command).c_str()), 0);
    }
    Result<std::vector<ProbeSite>> find_all(const fs::path &file, FunctionSpec spec, UprobeAbilities abilities = {}) {
        const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        return find_function(fd.get(), spec, abilities, {{(root / "debug").string()}});
    }
    Result<ProbeSite> find(const fs::path &file, FunctionSpec spec, UprobeAbilities abilities = {}) {
        auto sites = find_all(file, std::move(spec), abilities);
        if (!sites)
            return fail(sites.error());
        return std::move(sites->front());
    }
    std::string refusal(const fs::path &file, FunctionSpec spec) {
        const auto site = find(file, std::move(spec));
        return site ? "found at " + std::to_string(site->offset.value) : site.error().what;
    }
    // File offset of a symbol, as binutils see it.
    FileOffset offset_of(const fs::path &file, const std::string &symbol) {
        run("nm -D --defined-only " + file.string() + " >names 2>/dev/null; nm --defined-only " + file.string() +
            " >>names 2>/dev/null; readelf -lW " + file.string() + " >segments");
        std::ifstream names(root / "names"), segments(root / "segments");
        std::uint64_t address = 0;
        for (std::string value, type, name; names >> value >> type >> name;)
            if (name == symbol)
                address = std::stoull(value, nullptr, 16);
        for (std::string line; std::getline(segments, line);) {
            unsigned long offset = 0, start = 0, physical = 0, size = 0;
            if (std::sscanf(line.c_str(), " LOAD %lx %lx %lx %lx", &offset, &start, &physical, &size) == 4 &&
                address >= start && address < start + size)
                return FileOffset(address - start + offset);
        }
        return {};
    }

    fs::path root;
    int built = 0;
};

constexpr const char *two_functions = "int work(int a) { static volatile int n; while (a) n += a--; return n; }\n"
                                      "int variable = 3;\n"
                                      "int main(void) { return work(variable); }\n";

TEST_F(ProbeElf, AFunctionOfAPieAndOfANonPie) {
    for (const char *options : {"-O1 -pie -fPIE -fcf-protection=none", "-O1 -no-pie -fno-pie -fcf-protection=none"}) {
        const auto file = build(two_functions, options);
        const auto site = find(file, {"work"});
        ASSERT_TRUE(site) << site.error().what;
        EXPECT_EQ(site->offset, offset_of(file, "work")) << options;
        EXPECT_NE(site->offset, FileOffset());
        EXPECT_EQ(site->function, "work");
        EXPECT_THAT(site->returns, IsEmpty());
    }
}

TEST_F(ProbeElf, WhatIsNotAFunctionIsRefusedWithTheReason) {
    const auto file = build(two_functions, "-O1");
    EXPECT_THAT(refusal(file, {"variable"}), HasSubstr("is a variable"));
    EXPECT_THAT(refusal(file, {"__libc_start_main"}), HasSubstr("through the PLT"));
    EXPECT_THAT(refusal(file, {"wrok"}), AllOf(HasSubstr("did you mean 'work'?"), HasSubstr("inlined")));
    EXPECT_THAT(refusal(file, {"nothing_like_it"}),
                HasSubstr("no such function; a function that the compiler inlined"));
    EXPECT_THAT(refusal(root / "source", {"work"}), HasSubstr("not an ELF file"));
    std::ofstream(root / "script") << "#!/bin/sh\n";
    EXPECT_THAT(refusal(root / "script", {"work"}), HasSubstr("is a script"));
    EXPECT_THAT(refusal(root, {"work"}), HasSubstr("not a regular file"));
}

TEST_F(ProbeElf, AnIfuncIsRefused) {
    const auto file = build("static int one(void) { return 1; }\n"
                            "static void *choose(void) { return one; }\n"
                            "int chosen(void) __attribute__((ifunc(\"choose\")));\n"
                            "int main(void) { return chosen(); }\n",
                            "-O0");
    EXPECT_THAT(refusal(file, {"chosen"}), HasSubstr("IFUNC"));
}

constexpr const char *cpp =
    "namespace ns {\n"
    "__attribute__((noinline)) int f(int a) { asm volatile(\"\"); return a; }\n"
    "__attribute__((noinline)) int f(const char *a) { asm volatile(\"\"); return *a; }\n"
    "template <class T> __attribute__((noinline)) T g(T a) { asm volatile(\"\"); return a; }\n"
    "struct Klass { __attribute__((noinline)) int method(unsigned long) const;\n"
    "  __attribute__((noinline)) bool operator()(int); };\n"
    "int Klass::method(unsigned long a) const { asm volatile(\"\"); return (int)a; }\n"
    "bool Klass::operator()(int a) { asm volatile(\"\"); return a; }\n"
    "}\n"
    "int main(int c, char **v) { ns::Klass k; return ns::f(c) + ns::f(v[0]) + (int)ns::g(2.0) +\n"
    "  k.method(3) + k(4); }\n";

TEST_F(ProbeElf, DemangledNamesAndOverloads) {
    const auto file = build(cpp, "-O1 -fcf-protection=none", "c++");
    EXPECT_THAT(refusal(file, {"ns::f"}), AllOf(HasSubstr("2 functions have this name"), HasSubstr("ns::f(int)"),
                                                HasSubstr("ns::f(char const*)")));
    for (const char *name : {"ns::f(int)", "ns::f( int )", "_ZN2ns1fEi"}) {
        const auto site = find(file, {name});
        ASSERT_TRUE(site) << name << ": " << site.error().what;
        EXPECT_EQ(site->offset, offset_of(file, "_ZN2ns1fEi"));
        EXPECT_EQ(site->function, "ns::f(int)");
    }
    for (const char *name : {"ns::g", "ns::g<double>", "ns::g<double>(double)", "double ns::g<double>(double)"})
        EXPECT_TRUE(find(file, {name})) << name << ": " << refusal(file, {name});
    for (const char *name : {"ns::Klass::method", "ns::Klass::method(unsigned long) const", "ns::Klass::operator()",
                             "ns::Klass::operator()(int)"})
        EXPECT_TRUE(find(file, {name})) << name << ": " << refusal(file, {name});
    EXPECT_THAT(refusal(file, {"f"}), Not(HasSubstr("found")));
    EXPECT_THAT(refusal(file, {"ns::Klass::metod"}), HasSubstr("no such function"));
}

// Functions of these names, one after another, each a few bytes long.
std::string functions(std::initializer_list<const char *> names) {
    std::string text;
    for (const std::string name : names)
        text += "__asm__(\".globl \\\"" + name + "\\\"\\n.type \\\"" + name + "\\\",@function\\n\\\"" + name +
                "\\\": push %rbx; pop %rbx; ret\\n.size \\\"" + name + "\\\",.-\\\"" + name + "\\\"\");\n";
    return text + "int main(void) { return 0; }\n";
}

TEST_F(ProbeElf, RustNamesWithoutWhatDiffersFromBuildToBuild) {
    const auto file =
        build(functions({"_ZN7mycrate6handle17h6d239337de68b4efE", "_RNvXs_Cs1234_7mycrateNtB4_3FooNtB4_3Bar3run",
                         "_ZN7mycrate4main28_$u7b$$u7b$closure$u7d$$u7d$17h0123456789abcdefE",
                         "_RINvNtC3std3mem8align_ofdE", "_RINvNtC3std3mem8align_ofmE"}),
              "-O1");
    for (const char *name :
         {"mycrate::handle", "mycrate::handle::h6d239337de68b4ef", "_ZN7mycrate6handle17h6d239337de68b4efE"}) {
        const auto site = find(file, {name});
        ASSERT_TRUE(site) << name << ": " << site.error().what;
        EXPECT_EQ(site->offset, offset_of(file, "_ZN7mycrate6handle17h6d239337de68b4efE")) << name;
        EXPECT_EQ(site->function, "mycrate::handle");
    }
    EXPECT_THAT(refusal(file, {"mycrate::handle::h0000000000000000"}), HasSubstr("there are: mycrate::handle"));
    EXPECT_THAT(refusal(file, {"mycrate::handel"}), HasSubstr("did you mean 'mycrate::handle'?"));
    for (const char *name :
         {"<mycrate::Foo as mycrate::Bar>::run", "mycrate::main::{{closure}}", "std::mem::align_of::<f64>"})
        EXPECT_TRUE(find(file, {name})) << name << ": " << refusal(file, {name});
    EXPECT_THAT(refusal(file, {"std::mem::align_of"}),
                AllOf(HasSubstr("2 functions have this name"), HasSubstr("std::mem::align_of::<u32>")));
}

TEST_F(ProbeElf, TypesAsPeopleSpellThem) {
    const auto file = build("#include <string>\n#include <ostream>\n#include <map>\n"
                            "void put(std::string const &a, std::ostream &) { asm volatile(\"\"); }\n"
                            "void put(std::string const &a, int) { asm volatile(\"\"); }\n"
                            "[[gnu::abi_tag(\"v2\")]] int tagged(int a) { return a; }\n"
                            "struct A { operator bool() const; void operator<<(int); int (*pick())(int); };\n"
                            "A::operator bool() const { return true; }\nvoid A::operator<<(int) {}\n"
                            "int (*A::pick())(int) { return nullptr; }\n"
                            "namespace { [[gnu::noinline, gnu::used]] void hidden() { asm volatile(\"\"); } }\n"
                            "int main() { }\n",
                            "-O1 -lstdc++", "c++");
    for (const char *name :
         {"put(std::string const&, int)",
          "put(std::__cxx11::basic_string<char, std::char_traits<char>, "
          "std::allocator<char> > const&, int)",
          "put(std::__cxx11::basic_string<char,std::char_traits<char>,std::allocator<char>> const&,int)",
          "put(std::string const&, std::ostream&)", "tagged", "tagged(int)", "tagged[abi:v2](int)", "A::operator bool",
          "A::operator bool() const", "A::operator<<", "A::pick", "A::pick()", "(anonymous namespace)::hidden"})
        EXPECT_TRUE(find(file, {name})) << name << ": " << refusal(file, {name});
    EXPECT_THAT(refusal(file, {"put(char const*, int)"}),
                AllOf(HasSubstr("no such function with these parameters; there are: "),
                      HasSubstr("put(std::__cxx11::basic_string")));
    EXPECT_THAT(refusal(file, {"put(const std::string&, int)"}), HasSubstr("with these parameters; there are: "));
    EXPECT_THAT(refusal(file, {"A::pikc"}), HasSubstr("did you mean 'A::pick'?"));
}

TEST_F(ProbeElf, AFunctionIsProbedWithTheCopiesMadeOfIt) {
    const auto file =
        build(functions({"f", "f.constprop.0", "f.isra.0", "f.isra.0.cold", "f.part.0", "f2.isra.0", "_Z1gi",
                         "_Z1gi.constprop.1", "only.constprop.0", "only.constprop.1", "pieces.part.0", "pieces.cold"}),
              "-O1");
    const auto offsets = [&](const char *name) {
        std::vector<FileOffset> all;
        const auto sites = find_all(file, {name});
        EXPECT_TRUE(sites) << sites.error().what;
        for (const auto &site : sites ? *sites : std::vector<ProbeSite>{})
            all.push_back(site.offset);
        return all;
    };
    const auto at = [&](const char *symbol) { return offset_of(file, symbol); };
    EXPECT_THAT(offsets("f"), ElementsAre(at("f"), at("f.constprop.0"), at("f.isra.0")));
    EXPECT_EQ(find(file, {"f"})->note, "probed with the copies that the compiler made of it: f.constprop.0, f.isra.0");
    for (const char *name : {"g", "g(int)", "_Z1gi"})
        EXPECT_THAT(offsets(name), ElementsAre(at("_Z1gi"), at("_Z1gi.constprop.1"))) << name;
    EXPECT_THAT(offsets("only"), ElementsAre(at("only.constprop.0"), at("only.constprop.1")));
    EXPECT_THAT(find(file, {"only"})->note, HasSubstr("only in the program as the copies"));
    EXPECT_THAT(offsets("only.constprop.1"), ElementsAre(at("only.constprop.1")));
    EXPECT_THAT(offsets("f.part.0"), ElementsAre(at("f.part.0"))) << "asked for by name";
    EXPECT_THAT(offsets("f2"), ElementsAre(at("f2.isra.0")));
    EXPECT_THAT(refusal(file, {"pieces"}),
                AllOf(HasSubstr("only pieces of it are left"), HasSubstr("pieces.cold, pieces.part.0")));
    // an offset counts in one code
    EXPECT_EQ(find_all(file, {"f", 1})->size(), 1u);
    EXPECT_THAT(refusal(file, {"only", 1}), HasSubstr("2 copies, each with code of its own"));
}

TEST_F(ProbeElf, TheCopiesThatGccMakesAreFound) {
    const auto file = build("__attribute__((noinline)) static int slow(int a, int b) { asm volatile(\"\" :: \"r\"(a)); "
                            "return a + b; }\n"
                            "int main(int c, char **v) { return slow(c, 3) + slow(c + 1, 3); }\n",
                            "-O2");
    const auto site = find(file, {"slow"});
    ASSERT_TRUE(site) << site.error().what;
}

TEST_F(ProbeElf, TwoFunctionsOfOneNameAreNoCopies) {
    std::ofstream(root / "other.c")
        << "__attribute__((noinline)) static int f(int a) { asm volatile(\"\"); return a; }\n"
           "int other(int a) { return f(a); }\n";
    const auto file = build("__attribute__((noinline)) static int f(int a) { asm volatile(\"\"); return a; }\n"
                            "int other(int);\nint main(int c, char **v) { return f(c) + other(c); }\n",
                            "-O1 other.c");
    EXPECT_THAT(refusal(file, {"f"}), HasSubstr("2 functions have this name"));
}

TEST_F(ProbeElf, TheSonameOfALibrary) {
    const auto named = build("int f(void) { return 1; }\n", "-shared -fPIC -Wl,-soname,libwork.so.1");
    const auto unnamed = build("int f(void) { return 1; }\n", "-shared -fPIC");
    const auto soname = [](const fs::path &file) {
        const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        return elf_soname(fd.get());
    };
    EXPECT_EQ(soname(named), "libwork.so.1");
    EXPECT_EQ(soname(unnamed), "");
    EXPECT_EQ(soname(build(two_functions, "-O1")), "");
    EXPECT_EQ(soname(root / "source"), "");
    EXPECT_EQ(
        soname(build("int f(void) { return 1; }\n", "-shared -fPIC -Wl,-soname," + std::string(soname_max + 1, 'x'))),
        "");
    std::string bytes;
    {
        std::ifstream in(named, std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::mt19937 random(815);
    for (int round = 0; round < 400; ++round) {
        std::string copy = bytes;
        for (int change = 0; change < 1 + round % 8; ++change)
            copy[16 + random() % (round % 2 ? 1024 : copy.size() - 16)] = static_cast<char>(random());
        if (round % 10 == 9)
            copy.resize(random() % copy.size());
        std::ofstream(root / "bad", std::ios::binary) << copy;
        EXPECT_LE(soname(root / "bad").size(), soname_max);
    }
}

TEST_F(ProbeElf, TheLinkersCacheKnowsSonames) {
    EXPECT_THAT(cached_sonames((root / "none").string()), IsEmpty());
    if (fs::exists("/etc/ld.so.cache")) {
        EXPECT_THAT(cached_sonames(), testing::Contains("libc.so.6"));
    }
    std::string cache = "glibc-ld.so.cache1.1";
    const auto add = [&](auto... words) {
        for (const std::uint32_t word : {static_cast<std::uint32_t>(words)...})
            cache.append(reinterpret_cast<const char *>(&word), sizeof(word));
    };
    add(3, 8, 0, 0, 0, 0, 0);
    add(1, 120, 120, 0, 0, 0); // the first name
    add(1, 0xffffffff, 0, 0, 0, 0);
    add(1, 127, 0, 0, 0, 0); // the NUL at the end
    cache += std::string("liba.so\0", 8);
    std::ofstream(root / "cache", std::ios::binary) << cache;
    EXPECT_THAT(cached_sonames((root / "cache").string()), ElementsAre("liba.so", ""));
    for (std::size_t length = 0; length < cache.size(); ++length) {
        std::ofstream(root / "cache", std::ios::binary) << cache.substr(0, length);
        (void)cached_sonames((root / "cache").string());
    }
}

TEST_F(ProbeElf, VersionedSymbolsOfALibrary) {
    std::ofstream(root / "map") << "V1 { global: f; };\nV2 { global: f; } V1;\n";
    const auto file = build("int f_old(int a) { asm volatile(\"\"); return a; }\n"
                            "int f_new(int a) { asm volatile(\"nop\"); return a + 1; }\n"
                            "__asm__(\".symver f_old, f@V1\");\n__asm__(\".symver f_new, f@@V2\");\n",
                            "-O1 -shared -fPIC -fcf-protection=none -Wl,--version-script=map");
    const auto old_one = offset_of(file, "f_old"), new_one = offset_of(file, "f_new");
    for (const bool stripped : {false, true}) {
        if (stripped)
            run("strip " + file.string());
        EXPECT_EQ(find(file, {"f"})->offset, new_one);
        EXPECT_EQ(find(file, {"f@V1"})->offset, old_one);
        EXPECT_EQ(find(file, {"f@V2"})->offset, new_one);
        EXPECT_EQ(find(file, {"f@@V2"})->offset, new_one);
        EXPECT_THAT(refusal(file, {"f@@V1"}), HasSubstr("no such function"));
        EXPECT_THAT(refusal(file, {"f@V3"}), HasSubstr("no such function"));
    }
}

TEST_F(ProbeElf, AStrippedFileAndItsDebugFile) {
    const auto file = build(two_functions, "-O1 -g -Wl,--build-id=0x0123456789abcdef");
    const auto expected = find(file, {"work"})->offset;
    run("objcopy --only-keep-debug " + file.string() + " keep; strip " + file.string());
    EXPECT_THAT(refusal(file, {"work"}), AllOf(HasSubstr("stripped"), HasSubstr("debug file is not installed")));
    run("mkdir -p debug/.build-id/01; cp keep debug/.build-id/01/23456789abcdef.debug");
    const auto site = find(file, {"work"});
    ASSERT_TRUE(site) << site.error().what;
    EXPECT_EQ(site->offset, expected);
    EXPECT_THAT(refusal(file, {"wrok"}), HasSubstr("did you mean 'work'"));
    // another program's debug file does not count
    const auto other = build(two_functions, "-O1 -g -Wl,--build-id=0xfedcba9876543210");
    run("cp " + other.string() + " debug/.build-id/01/23456789abcdef.debug");
    EXPECT_THAT(refusal(file, {"work"}), HasSubstr("stripped"));
}

TEST_F(ProbeElf, TheCheapestPlaceOfAnEntry) {
    const auto entry = [&](const char *code, UprobeAbilities abilities = {}) {
        const auto file = build(std::string("__asm__(\".globl f\\n.type f,@function\\nf:") + code +
                                    "\\nret\\n.size f,.-f\");\nint main(void) { return 0; }\n",
                                "-O1 -fcf-protection=none");
        const auto site = find(file, {"f", 0, true}, abilities);
        EXPECT_TRUE(site) << site.error().what;
        return std::pair(site->offset - offset_of(file, "f"), site->warning.empty());
    };
    EXPECT_EQ(entry("push %rbx; pop %rbx"), std::pair(0ul, true));
    EXPECT_EQ(entry("push %r12; pop %r12"), std::pair(0ul, true));
    EXPECT_EQ(entry("endbr64; push %rbx; pop %rbx"), std::pair(4ul, true));
    EXPECT_EQ(entry("endbr64; nop"), std::pair(4ul, true));
    EXPECT_EQ(entry("endbr64; sub $8,%rsp; add $8,%rsp"), std::pair(0ul, false));
    EXPECT_EQ(entry("sub $8,%rsp; add $8,%rsp"), std::pair(0ul, false));
    EXPECT_EQ(entry("mov %rdi,%rax; push %rbx; pop %rbx"), std::pair(0ul, false));
    EXPECT_EQ(entry(".byte 0x0f,0x1f,0x44,0,0"), std::pair(0ul, false));
    EXPECT_EQ(entry(".byte 0x0f,0x1f,0x44,0,0", UprobeAbilities::of("6.18.0-x")), std::pair(0ul, true));
    EXPECT_TRUE(UprobeAbilities::of("7.0").long_nops);
    EXPECT_FALSE(UprobeAbilities::of("6.1.0-56-amd64").long_nops);
}

TEST_F(ProbeElf, AnOffsetLiesInTheFunctionAndAtAnInstruction) {
    const auto file = build("__asm__(\".globl f\\n.type f,@function\\nf: push %rbx; mov $0x11223344,%eax; pop %rbx\\n"
                            "ret\\n.size f,.-f\");\nint main(void) { return 0; }\n",
                            "-O1");
    const auto entry = find(file, {"f"})->offset;
    EXPECT_EQ(find(file, {"f", 1})->offset, entry + 1);
    EXPECT_EQ(find(file, {"f", 6})->offset, entry + 6);
    EXPECT_THAT(refusal(file, {"f", 3}), HasSubstr("+0x3 lies within an instruction; one begins at +0x6"));
    EXPECT_THAT(refusal(file, {"f", 8}), HasSubstr("beyond the function, which has 0x8 bytes"));
    EXPECT_THAT(refusal(file, {"f", ~0ull}), HasSubstr("beyond the function"));
}

TEST_F(ProbeElf, TheReturnOfAProgramThatThrowsIsProbedAtItsRets) {
    const auto file =
        build("__attribute__((noinline, noclone)) int f(int a) { if (a == 3) throw a; asm volatile(\"\"); return a; }\n"
              "int main(int c, char **) { try { return f(c); } catch (int) { return 1; } }\n",
              "-O1 -lstdc++", "c++");
    const auto site = find(file, {"f(int)", 0, true});
    ASSERT_TRUE(site) << site.error().what;
    ASSERT_THAT(site->returns, Not(IsEmpty()));
    std::ifstream in(file, std::ios::binary);
    for (const auto offset : site->returns) {
        in.seekg(static_cast<std::streamoff>(offset.value));
        EXPECT_EQ(in.get(), 0xc3);
    }
    EXPECT_THAT(site->warning, HasSubstr("can throw exceptions"));
    EXPECT_THAT(find(file, {"f(int)"})->returns, IsEmpty()); // its return is not wanted
}

TEST_F(ProbeElf, TheReturnOfAProgramWithCoroutinesIsProbedAtItsRets) {
    const auto file = build(
        std::string(two_functions) + "#include <ucontext.h>\nvoid go(ucontext_t *a) { swapcontext(a, a); }\n", "-O1");
    const auto site = find(file, {"work", 0, true});
    ASSERT_TRUE(site) << site.error().what;
    EXPECT_THAT(site->returns, Not(IsEmpty()));
    EXPECT_THAT(site->warning, HasSubstr("switches stacks"));
}

// What Go's linker leaves of itself, by hand.
std::string go_program(const std::string &version) {
    std::string source = std::string(two_functions) +
                         "__attribute__((section(\".note.go.buildid\"))) const char id[] = \"go\";\n"
                         "long assembly(long a) __asm__(\"sum.abi0\");\nlong assembly(long a) { return a; }\n";
    if (!version.empty())
        source +=
            fmt::format("__attribute__((section(\".go.buildinfo\"))) const char info[64] = \"\\xff Go buildinf:\" "
                        "\"\\010\\002\" \"................\" \"\\{:03o}\" \"{}\";\n",
                        version.size(), version);
    return source;
}

TEST_F(ProbeElf, AGoFunctionIsProbedAtItsRetsAndTimedByGoroutine) {
    const auto site = find(build(go_program("go1.22.1"), "-O1"), {"work", 0, true});
    ASSERT_TRUE(site) << site.error().what;
    EXPECT_EQ(site->calls, ProbeSite::Calls::OfGoroutine);
    EXPECT_THAT(site->returns, Not(IsEmpty()));
    EXPECT_THAT(site->warning, HasSubstr("stacks move"));
}

TEST_F(ProbeElf, WhereTheGoroutineCannotBeToldGoIsRefused) {
    EXPECT_THAT(refusal(build(go_program("go1.16.3"), "-O1"), {"work", 0, false}), HasSubstr("since go1.17"));
    EXPECT_THAT(refusal(build(go_program(""), "-O1"), {"work", 0, true}), HasSubstr("version cannot be told"));
    EXPECT_THAT(refusal(build(go_program("go1.22.1"), "-O1"), {"sum.abi0", 0, false}), HasSubstr("ABI0"));
}

// What <sys/sdt.h> leaves, by hand: not every machine has it.
constexpr const char *usdt = R"(
#define PROBE(name, args) __asm__ volatile( \
    "990: nop\n.pushsection .note.stapsdt,\"\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n" \
    "991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte counter\n" \
    ".asciz \"prov\"\n.asciz \"" name "\"\n.asciz \"" args "\"\n994: .balign 4\n.popsection\n")
__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n.weak _.stapsdt.base\n"
        "_.stapsdt.base: .space 1\n.size _.stapsdt.base,1\n.popsection\n");
__attribute__((section(".probes"))) unsigned short counter = 0;
int main(void) { PROBE("start", "-4@%edi 8@$5"); PROBE("done", ""); PROBE("done", ""); return counter; }
)";

TEST_F(ProbeElf, StaticProbesWithTheirSemaphore) {
    for (const char *options : {"-O1 -pie -fPIE", "-O1 -no-pie -fno-pie"}) {
        const auto file = build(usdt, options);
        const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        const auto start = find_usdt(fd.get(), "prov", "start", {});
        ASSERT_TRUE(start) << start.error().what;
        ASSERT_THAT(*start, SizeIs(1));
        EXPECT_EQ(start->front().semaphore, offset_of(file, "counter"));
        EXPECT_EQ(start->front().arguments, "-4@%edi 8@$5");
        EXPECT_EQ(start->front().price, ProbePrice::Emulated);
        std::ifstream in(file, std::ios::binary);
        in.seekg(static_cast<std::streamoff>(start->front().offset.value));
        EXPECT_EQ(in.get(), 0x90);
        EXPECT_THAT(*find_usdt(fd.get(), "prov", "done", {}), SizeIs(2));
        EXPECT_THAT(find_usdt(fd.get(), "prov", "nope", {}).error().what,
                    HasSubstr("there are: prov:done, prov:start"));
    }
    const auto plain = build(two_functions, "-O1");
    const UniqueFd fd(::open(plain.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_THAT(find_usdt(fd.get(), "a", "b", {}).error().what, HasSubstr("the file has none"));
}

TEST_F(ProbeElf, StaticProbesOfTheRealHeader) {
    if (!fs::exists("/usr/include/x86_64-linux-gnu/sys/sdt.h") && !fs::exists("/usr/include/sys/sdt.h"))
        GTEST_SKIP() << "<sys/sdt.h> is not installed";
    const auto file = build("#define SDT_USE_VARIADIC\n#include <sys/sdt.h>\n"
                            "int main(int c, char **v) { DTRACE_PROBE2(app, begin, c, v); return 0; }\n",
                            "-O1");
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    const auto sites = find_usdt(fd.get(), "app", "begin", {});
    ASSERT_TRUE(sites) << sites.error().what;
    EXPECT_EQ(sites->front().semaphore, FileOffset());
    EXPECT_THAT(sites->front().arguments, HasSubstr("@%"));
}

// Whatever is in the file: an answer or an Error, in bounded time.
TEST_F(ProbeElf, SurvivesCorruptedFiles) {
    std::ofstream(root / "map") << "V1 { global: main; };\n";
    const auto file = build(usdt, "-O1 -g0 -Wl,--version-script=map -rdynamic");
    std::string bytes;
    {
        std::ifstream in(file, std::ios::binary);
        bytes.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::mt19937 random(4711);
    const fs::path bad = root / "bad";
    const std::uint64_t sections = *reinterpret_cast<const std::uint64_t *>(bytes.data() + 40);
    for (int round = 0; round < 600; ++round) {
        std::string copy = bytes;
        const int kind = round % 4;
        for (int change = 0; change < 1 + round % 8; ++change) {
            // headers, program headers, section headers, anything
            const std::size_t from = kind == 2 ? sections : 0;
            const std::size_t length = kind == 0 ? 64 : kind == 1 ? 1024 : copy.size() - from;
            const std::size_t at = from + random() % length;
            copy[at] = random() % 2 ? static_cast<char>(random()) : static_cast<char>(random() % 2 ? 0xff : 0);
        }
        if (round % 10 == 9)
            copy.resize(random() % copy.size());
        std::ofstream(bad, std::ios::binary) << copy;
        const UniqueFd fd(::open(bad.c_str(), O_RDONLY | O_CLOEXEC));
        (void)find_function(fd.get(), {"main", round % 3 ? 0u : 5u, true}, {}, {});
        (void)find_function(fd.get(), {"no_such"}, {}, {});
        (void)find_usdt(fd.get(), "prov", "done", {});
        (void)find_usdt(fd.get(), "prov", "other", {});
    }
}

} // namespace
} // namespace incident::daemon
