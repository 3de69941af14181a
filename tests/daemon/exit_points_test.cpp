// Where calls can end without a return, in libraries of this system and in programs made for it.
#include "daemon/probe/exit_points.h"

#include "capture/os/unique_fd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace incident::daemon {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

FileExits exits_of(const std::string &file) {
    const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    const auto exits = find_exits(fd.get(), UprobeAbilities{});
    EXPECT_TRUE(exits) << file << ": " << exits.error().what;
    return exits.value_or(FileExits{});
}

long with(const FileExits &exits, Recorder::UprobeRole role) {
    return std::ranges::count(exits.points, role, &ExitPoint::role);
}

class Exits : public testing::Test {
protected:
    Exits() {
        std::string name = (fs::temp_directory_path() / "exits.XXXXXX").string();
        root = ::mkdtemp(name.data());
    }
    ~Exits() override { fs::remove_all(root); }

    FileExits of(const std::string &source, const std::string &flags) {
        std::ofstream(root / "source.cpp") << source;
        const std::string program = (root / "program").string();
        EXPECT_EQ(
            std::system(("c++ -w -O1 -o " + program + " " + (root / "source.cpp").string() + " " + flags).c_str()), 0);
        return exits_of(program);
    }

    fs::path root;
};

constexpr const char *throwing = "int main(int c, char **) { try { if (c > 9) throw c; } catch (int) {} return 0; }\n";

TEST_F(Exits, ANumberWithTheShapeOfAJumpIsNone) {
    // 48 8b 26 c3: mov (%rsi), %rsp; ret
    const std::string source = "__asm__(\".type number, @function\\nnumber: movabs $0x11c3268b48, %rax\\nret\\n"
                               ".size number, .-number\");\nint main() { return 0; }\n";
    EXPECT_THAT(of(source, "").hidden, IsEmpty());
    EXPECT_THAT(of(source, "-s").hidden, HasSubstr("jumps of its own")) << "it cannot be told where it begins";
}

TEST_F(Exits, JumpsOfItsOwnAreSeenByTheirShape) {
    const std::string main = "int main() { return 0; }\n";
    EXPECT_THAT(of("void leave(void **to) { __builtin_longjmp(to, 1); }\n" + main, "").hidden,
                HasSubstr("jumps of its own"));
    EXPECT_THAT(of("__asm__(\"mov (%rsi), %rsp\\npop %rbx\\npop %rbp\\nret\");\n" + main, "-s").hidden,
                HasSubstr("jumps of its own"));
    EXPECT_THAT(of("__asm__(\"mov 8(%rsp), %rsp\\nret\");\n" + main, "").hidden, IsEmpty()) << "its own frame's";
    EXPECT_THAT(
        of("#include <alloca.h>\nvoid use(void *);\nvoid f(long n) { use(alloca(n)); }\nvoid use(void *) {}\n" + main,
           "")
            .hidden,
        IsEmpty());
}

TEST_F(Exits, WhatSwitchesStacksBearsNoReturnProbe) {
    const auto why = [](const std::string &file) {
        const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        return why_no_return_probes(fd.get()).value_or("not read");
    };
    const std::string program = (root / "program").string();
    of("__asm__(\"mov (%rsi), %rsp\\npop %rbx\\npop %rbp\\nret\");\n", "-shared -nostdlib -s");
    EXPECT_EQ(why(program), "switches stacks") << "at the very end of the code as well";
    of("extern \"C\" void swapcontext(); void f() { swapcontext(); }\n", "-shared -fPIC");
    EXPECT_EQ(why(program), "switches stacks");
    of("extern \"C\" void _PyEval_EvalFrameDefault() {}\n", "-shared -fPIC");
    EXPECT_EQ(why(program), "may load what switches stacks");
    of("extern \"C\" void Perl_runops_standard() {}\n", "-shared -fPIC");
    EXPECT_EQ(why(program), "may load what switches stacks");
    EXPECT_EQ(why("/lib/x86_64-linux-gnu/libc.so.6"), "");
    EXPECT_EQ(why("/lib64/ld-linux-x86-64.so.2"), "");
    EXPECT_EQ(why("/lib/x86_64-linux-gnu/libgcc_s.so.1"), "");
}

TEST_F(Exits, TheUnwinderAndTheCLibraryHaveThem) {
    const auto unwinder = exits_of("/lib/x86_64-linux-gnu/libgcc_s.so.1");
    EXPECT_EQ(with(unwinder, Recorder::UprobeRole::UnwindLands), 1);
    const auto library = exits_of("/lib/x86_64-linux-gnu/libc.so.6");
    EXPECT_EQ(with(library, Recorder::UprobeRole::LongJump), 2) << "longjmp under all its names, and the fortified one";
    EXPECT_EQ(with(library, Recorder::UprobeRole::SwitchStack), 1);
    EXPECT_FALSE(library.switches_stacks) << "it only has what others may use";
    for (const auto &exits : {unwinder, library})
        EXPECT_EQ(exits.hidden, "");
}

TEST_F(Exits, AProgramThatUsesTheSystemsUnwinderHidesNothing) {
    const auto exits = of(throwing, "-s");
    EXPECT_THAT(exits.points, IsEmpty());
    EXPECT_EQ(exits.hidden, "");
}

TEST_F(Exits, AStaticProgramHasItsOwn) {
    const auto exits =
        of(std::string("#include <csetjmp>\nvoid jump(jmp_buf b) { longjmp(b, 1); }\n") + throwing, "-static");
    EXPECT_EQ(with(exits, Recorder::UprobeRole::UnwindLands), 1);
    EXPECT_GE(with(exits, Recorder::UprobeRole::LongJump), 1);
    EXPECT_EQ(exits.hidden, "");
}

TEST_F(Exits, WhatIsStrippedOfThemIsSaid) {
    EXPECT_THAT(of(throwing, "-static -s").hidden, HasSubstr("stripped"));
    EXPECT_THAT(of(throwing, "-static-libgcc -static-libstdc++ -s").hidden, HasSubstr("an unwinder of its own"));
}

TEST_F(Exits, AProgramThatSwitchesStacksIsKnown) {
    EXPECT_TRUE(
        of("#include <ucontext.h>\nint main() { ucontext_t a, b; return swapcontext(&a, &b); }\n", "").switches_stacks);
    EXPECT_TRUE(of("extern \"C\" int jump_fcontext() { return 0; }\nint main() { return jump_fcontext(); }\n", "")
                    .switches_stacks);
}

} // namespace
} // namespace incident::daemon
