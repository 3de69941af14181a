// mini.core against the full core of the same process, in the debuggers people use.
#include "postmortem/image/mini_core.h"

#include "core_victim.h"
#include "full_core.h"
#include "state.h"

#include <csignal>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <regex>
#include <sstream>

namespace incident::postmortem::test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

namespace {

struct Kind {
    const char *name, *flags;
};

MiniCore mini_core(const CrashImage &image) {
    auto core = make_mini_core(image, open_module_files(image));
    EXPECT_TRUE(core) << core.error().what;
    return core ? std::move(*core) : MiniCore{};
}

// What gdb says to each of some commands.
std::map<std::string, std::string> gdb(const CoreVictim &victim, const std::string &core,
                                       const std::vector<std::string> &commands, std::string &complaints) {
    std::string line = "gdb -q -batch -nx -iex 'set debuginfod enabled off'";
    for (const std::string &command : commands)
        line += " -ex 'echo @" + command + "\\n' -ex '" + command + "'";
    const Output output = victim.run(line + " victim " + core);
    complaints = output.err;
    std::map<std::string, std::string> answers;
    std::string key = "start";
    std::istringstream lines(output.out);
    for (std::string text; std::getline(lines, text);)
        if (text.starts_with('@'))
            key = text.substr(1);
        else
            answers[key] += text + '\n';
    return answers;
}

// ld.so found libraries under /lib, which is a link to what the kernel says: /usr/lib.
std::string one_lib(const std::string &text) {
    return std::regex_replace(text, std::regex("/usr/lib"), "/lib");
}

std::string lines_with(const std::string &text, const std::string &pattern, bool with = true) {
    std::istringstream lines(text);
    std::string kept;
    const std::regex regex(pattern);
    for (std::string line; std::getline(lines, line);)
        if (std::regex_search(line, regex) == with)
            kept += line + '\n';
    return kept;
}

// lldb's stderr and what it says of the threads.
std::pair<std::string, std::string> lldb(const CoreVictim &victim, const std::string &core) {
    const Output output = victim.run("lldb -b -o 'bt all' -o 'image list' ./victim -c " + core);
    // a thread that took no signal: gdb's gcore says SIGSTOP of it, the kernel (and mini.core) nothing
    std::string text = std::regex_replace(output.out, std::regex("stop reason = signal .*"), "");
    return {output.err, one_lib(lines_with(text, "^\\(lldb\\)|^Core file", false))};
}

} // namespace

class MiniCoreTools : public testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(All, MiniCoreTools,
                         testing::Values(Kind{"pie", "-pie -fPIE"}, Kind{"no_pie", "-no-pie -fno-pie"},
                                         Kind{"static_no_pie", "-static"}, Kind{"static_pie", "-static-pie -fPIE"}),
                         [](const auto &kind) { return std::string(kind.param.name); });

TEST_P(MiniCoreTools, SayOfItWhatTheySayOfAFullCore) {
    const CoreVictim victim(GetParam().flags);
    ASSERT_EQ(victim.problem(), "");
    const CrashImage image = victim.image();
    ASSERT_EQ(image.threads.size(), 3u);
    const MiniCore mini = mini_core(image);
    write_file(victim.dir() / "mini", mini.bytes);
    EXPECT_LT(mini.bytes.size(), 256u << 10);
    EXPECT_EQ(mini_core(image).bytes, mini.bytes);

    const std::string registers =
        "thread apply all info registers rax rbx rcx rdx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 "
        "r14 r15 rip eflags cs ss ds es fs gs fs_base gs_base";
    const std::vector<std::string> commands{"thread apply all bt -full",
                                            registers,
                                            "info threads",
                                            "info sharedlibrary",
                                            "info proc mappings",
                                            "info auxv",
                                            "p $_siginfo",
                                            "p constant",
                                            "x/4i $pc"};
    std::string full_complaints, complaints;
    auto full = gdb(victim, "core", commands, full_complaints), said = gdb(victim, "mini", commands, complaints);
    EXPECT_EQ(complaints, full_complaints);
    EXPECT_THAT(said["start"], HasSubstr("Program terminated with signal SIGSEGV"));
    EXPECT_THAT(said["thread apply all bt -full"], AllOf(HasSubstr("boom"), HasSubstr("start_thread")));
    for (const std::string &command : commands)
        if (command != "info proc mappings") {
            EXPECT_EQ(one_lib(said[command]), one_lib(full[command])) << command;
        }
    // mappings of files, but those whose bytes were not what the file has (EXPECT: no row that the full core has not)
    const std::string rows = lines_with(said["info proc mappings"], "0x");
    EXPECT_THAT(rows, HasSubstr(victim.exe()));
    std::istringstream row(rows);
    for (std::string text; std::getline(row, text);)
        EXPECT_THAT(full["info proc mappings"], HasSubstr(text));
    for (const capture::Mapping &mapping : image.maps.all())
        if (mapping.is_file() && mapping.execute) {
            EXPECT_THAT(rows, HasSubstr(mapping.path));
        }

    // A variable nobody captured is not shown as what the file has for a start, nor as zero.
    const auto unknown = gdb(victim, "mini", {"p counter"}, complaints);
    EXPECT_THAT(complaints, HasSubstr("Cannot access memory"));
    gdb(victim, "mini", {"p tls_value"}, complaints);
    EXPECT_THAT(complaints, HasSubstr("Cannot find thread-local storage"));

    const Output frames = victim.run("eu-stack --core mini -e victim"),
                 want = victim.run("eu-stack --core core -e victim");
    EXPECT_EQ(frames.err, "");
    EXPECT_EQ(frames.out, want.out);
    EXPECT_THAT(frames.out, HasSubstr("boom"));
    EXPECT_EQ(victim.run("eu-stack --core mini").out, want.out) << "without being told the program";
    EXPECT_EQ(one_lib(victim.run("eu-unstrip -n --core mini").out),
              one_lib(victim.run("eu-unstrip -n --core core").out));

    const Output notes = victim.run("eu-readelf -n mini");
    EXPECT_EQ(notes.err, "");
    EXPECT_THAT(notes.out, AllOf(HasSubstr("fname: victim"), HasSubstr("fault address: 0x10"), HasSubstr("NULL")));
    const Output headers = victim.run("readelf -aW mini");
    EXPECT_EQ(headers.err, "");
    EXPECT_THAT(headers.out, HasSubstr("NT_FILE"));

    const auto lldb_full = lldb(victim, "core"), lldb_mini = lldb(victim, "mini");
    EXPECT_EQ(lldb_mini.first, lldb_full.first);
    EXPECT_EQ(lines_with(lldb_mini.second, "vdso", false), lines_with(lldb_full.second, "vdso", false));
    EXPECT_THAT(lldb_mini.second, HasSubstr("`boom"));
}

// gdb 13 takes libthread_db for i386 cores as well, but a core has not what that needs of an i386 thread (NT_386_TLS).
TEST(MiniCore, OfA32BitProcessIsAnI386Core) {
    for (const char *flags : {"-m32 -pie -fPIE", "-m32 -no-pie -fno-pie", "-m32 -static"}) {
        const CoreVictim victim(flags);
        if (victim.problem().contains("Exec format error"))
            GTEST_SKIP() << "this kernel executes no i386 programs";
        ASSERT_EQ(victim.problem(), "") << flags;
        const CrashImage image = victim.image();
        ASSERT_EQ(image.isa, Isa::i386) << flags;
        ASSERT_EQ(image.threads.size(), 3u) << flags;
        const MiniCore mini = mini_core(image);
        write_file(victim.dir() / "mini", mini.bytes);
        EXPECT_LT(mini.bytes.size(), 256u << 10);

        const std::vector<std::string> commands{
            "thread apply all bt",
            "thread apply all info registers eax ebx ecx edx esi edi ebp esp eip eflags cs ss ds es fs gs",
            "info sharedlibrary",
            "info auxv",
            "p $_siginfo",
            "x/4i $pc"};
        std::string full_complaints, complaints;
        std::vector<std::string> all = commands;
        all.insert(all.begin(), "show architecture");
        auto full = gdb(victim, "core", all, full_complaints), said = gdb(victim, "mini", all, complaints);
        EXPECT_EQ(lines_with(complaints, "[Tt]hread|^$", false), lines_with(full_complaints, "[Tt]hread|^$", false))
            << flags;
        EXPECT_THAT(said["start"], HasSubstr("Program terminated with signal SIGSEGV"));
        EXPECT_THAT(said["show architecture"], HasSubstr("i386"));
        EXPECT_THAT(said["thread apply all bt"], HasSubstr("boom"));
        for (const std::string &command : commands) {
            // threads go by another name where the thread library is not there
            const auto same = [&](const std::string &text) {
                return one_lib(std::regex_replace(text, std::regex("Thread 0x[0-9a-f]+ \\((LWP [0-9]+)\\)"), "$1"));
            };
            EXPECT_EQ(same(said[command]), same(full[command])) << flags << ": " << command;
        }
        EXPECT_THAT(victim.run("readelf -hW mini").out, AllOf(HasSubstr("ELF32"), HasSubstr("Intel 80386")));
        const Output notes = victim.run("eu-readelf -n mini");
        EXPECT_EQ(notes.err, "");
        EXPECT_THAT(notes.out, AllOf(HasSubstr("fname: victim"), HasSubstr("fault address: 0x10"), HasSubstr("NULL")));
        const Output frames = victim.run("eu-stack --core mini -e victim"),
                     want = victim.run("eu-stack --core core -e victim");
        EXPECT_EQ(frames.out, want.out) << flags;
        EXPECT_THAT(frames.out, HasSubstr("boom"));
    }
}

TEST(MiniCore, OfAKilledProcessWithLittleCaptured) {
    const CoreVictim victim("-pie -fPIE");
    ASSERT_EQ(victim.problem(), "");
    CrashImage image = victim.image();
    // as a victim of kill -9 whose vdso was not read
    ImageMemory memory;
    for (const auto &[address, bytes] : image.memory.pieces())
        if (address != image.aux(AT_SYSINFO_EHDR))
            memory.add(address, bytes);
    image.memory = std::move(memory);
    image.signal = SIGKILL;
    siginfo_t info{};
    info.si_signo = SIGKILL;
    info.si_pid = 4711;
    std::memcpy(image.siginfo.data(), &info, sizeof info);
    image.threads[0].is_triggers = false;
    const MiniCore mini = mini_core(image);
    write_file(victim.dir() / "mini", mini.bytes);
    std::string full_complaints, complaints;
    auto full = gdb(victim, "core", {"thread apply all bt"}, full_complaints);
    auto said = gdb(victim, "mini", {"thread apply all bt", "p $_siginfo._sifields._kill.si_pid", "info sharedlibrary"},
                    complaints);
    EXPECT_EQ(complaints, full_complaints);
    EXPECT_THAT(said["start"], HasSubstr("Program terminated with signal SIGKILL"));
    EXPECT_EQ(said["thread apply all bt"], full["thread apply all bt"]);
    EXPECT_EQ(said["p $_siginfo._sifields._kill.si_pid"], "$1 = 4711\n");
    EXPECT_THAT(said["info sharedlibrary"], AllOf(HasSubstr("libc.so.6"), HasSubstr("ld-linux")));

    // nor its auxiliary vector
    image.auxv.clear();
    image.exe = victim.exe();
    const MiniCore made = mini_core(image);
    write_file(victim.dir() / "mini", made.bytes);
    EXPECT_THAT(made.notes, testing::Contains(HasSubstr("auxiliary vector")));
    said = gdb(victim, "mini", {"thread apply all bt"}, complaints);
    EXPECT_EQ(complaints, full_complaints);
    EXPECT_EQ(said["thread apply all bt"], full["thread apply all bt"]);
}

// libthread_db must find its lists; threads go by their pthread_t.
TEST(MiniCore, ThreadsByTheirPthreadWhereNothingOfGlibcsOwnRecordWasCaptured) {
    const CoreVictim victim("-no-pie -fno-pie");
    ASSERT_EQ(victim.problem(), "");
    CrashImage image = victim.image();
    image.memory = {};
    for (const ImageThread &thread : image.threads)
        image.memory.add(thread.registers->rsp, core_memory(read_file(victim.core()), thread.registers->rsp, 512));
    const MiniCore mini = mini_core(image);
    EXPECT_THAT(mini.notes, testing::Contains(HasSubstr("of 3 threads, all zeros but")));
    write_file(victim.dir() / "mini", mini.bytes);
    std::string full_complaints, complaints;
    auto full = gdb(victim, "core", {"info threads"}, full_complaints);
    auto said = gdb(victim, "mini", {"info threads"}, complaints);
    EXPECT_EQ(complaints, full_complaints);
    EXPECT_THAT(said["start"], HasSubstr("[Thread debugging using libthread_db enabled]"));
    EXPECT_EQ(said["info threads"], full["info threads"]);
}

TEST(MiniCore, WithoutTheProgramsFileThereAreStillRegistersAndThreads) {
    const CoreVictim victim("-pie -fPIE");
    ASSERT_EQ(victim.problem(), "");
    const CrashImage image = victim.image();
    // recompiled since: another build-id
    ASSERT_EQ(victim.run("gcc -g -O0 -DOTHER -pthread -o victim victim.c").code, 0);
    const std::vector<ModuleFile> files = open_module_files(image);
    ASSERT_FALSE(files.at(0).file);
    EXPECT_THAT(files.at(0).problem, HasSubstr("build-id"));
    const auto mini = make_mini_core(image, files);
    ASSERT_TRUE(mini);
    EXPECT_THAT(mini->notes, testing::Contains(HasSubstr("changed since it was mapped")));
    EXPECT_THAT(mini->notes, testing::Contains(HasSubstr("shared libraries are not listed")));
    write_file(victim.dir() / "mini", mini->bytes);
    const Output notes = victim.run("eu-readelf -n mini");
    EXPECT_EQ(notes.err, "");
    EXPECT_THAT(notes.out, Not(HasSubstr("        " + victim.exe() + "\n")))
        << "its bytes would pass for the process's";
    EXPECT_THAT(notes.out, HasSubstr("libc.so.6"));
    for (const ImageThread &thread : image.threads)
        EXPECT_THAT(notes.out, HasSubstr("pid: " + std::to_string(thread.tid)));
}

TEST(MiniCore, NotesStandAsTheKernelWritesThem) {
    const CoreVictim victim("-pie -fPIE");
    ASSERT_EQ(victim.problem(), "");
    CrashImage image = victim.image();
    image.threads[1].registers.reset();
    const MiniCore mini = mini_core(image);
    EXPECT_THAT(mini.notes, testing::Contains(HasSubstr("1 threads are left out")));
    write_file(victim.dir() / "mini", mini.bytes);
    const std::string notes = victim.run("eu-readelf -n mini").out;
    std::vector<std::string> order;
    std::istringstream lines(notes);
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with("  CORE"))
            order.push_back(line.substr(line.rfind(' ') + 1));
    EXPECT_THAT(order, ElementsAre("PRSTATUS", "PRPSINFO", "SIGINFO", "AUXV", "FILE", "PRSTATUS"));
    EXPECT_LT(notes.find("pid: " + std::to_string(image.threads[0].tid)),
              notes.find("pid: " + std::to_string(image.threads[2].tid)));
    EXPECT_THAT(notes, Not(HasSubstr("pid: " + std::to_string(image.threads[1].tid) + ",")));
}

// A section header says then how many program headers there are.
TEST(MiniCore, MoreSegmentsThanAnElfHeaderCounts) {
    const CoreVictim victim("-static");
    ASSERT_EQ(victim.problem(), "");
    CrashImage image = victim.image();
    for (std::uint64_t i = 0; i < 66000; ++i)
        image.memory.add(0x100000000000 + i * 4096, "windows");
    write_file(victim.dir() / "mini", mini_core(image).bytes);
    const Output headers = victim.run("readelf -hW mini");
    EXPECT_EQ(headers.err, "");
    EXPECT_THAT(headers.out, HasSubstr("65535 (660"));
    std::string complaints;
    auto said = gdb(victim, "mini", {"x/2c 0x100000000000 + 65999 * 4096", "bt"}, complaints);
    EXPECT_THAT(complaints, IsEmpty());
    EXPECT_THAT(said["x/2c 0x100000000000 + 65999 * 4096"], HasSubstr("119 'w'"));
    EXPECT_THAT(said["bt"], HasSubstr("main"));
}

} // namespace incident::postmortem::test
