// The pieces of the unwinder, each by itself.
#include "postmortem/show/threads_view.h"
#include "postmortem/unwind/capped_child.h"
#include "postmortem/unwind/child_analysis.h"
#include "postmortem/unwind/expression.h"
#include "postmortem/unwind/install_hint.h"
#include "postmortem/unwind/machine_code.h"
#include "postmortem/unwind/names.h"
#include "postmortem/unwind/perf_map.h"

#include <dwarf.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <random>

namespace incident::postmortem {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

TEST(UnwindNames, AreWhatABacktraceShows) {
    EXPECT_EQ(function_name("main"), "main");
    EXPECT_EQ(function_name("_ZSt9terminatev"), "std::terminate");
    EXPECT_EQ(function_name("_ZN2ns1C1fEi"), "ns::C::f");
    EXPECT_EQ(function_name("_ZNK2ns1C1fEi"), "ns::C::f");
    EXPECT_EQ(function_name("_ZN2ns1CC2Ev"), "ns::C::C");
    EXPECT_EQ(function_name("_Z3fooIiEvT_"), "foo<int>"); // the return type of a template is mangled, too
    EXPECT_EQ(function_name("_ZSt4sortIPiEvT_S1_"), "std::sort<int*>");
    EXPECT_EQ(function_name("_ZlsRSoRK1A"), "operator<<");
    EXPECT_EQ(function_name("_Z3fooB5cxx11v"), "foo[abi:cxx11]");
    EXPECT_EQ(function_name("_ZZ4mainENKUlvE_clEv"), "main::{lambda()#1}::operator()");
    EXPECT_EQ(function_name("_ZN12_GLOBAL__N_16hiddenEi"), "(anonymous namespace)::hidden");
    EXPECT_EQ(function_name("_Z4workv.cold"), "work");
    EXPECT_EQ(function_name("_Z4worki.constprop.0"), "work");
    EXPECT_EQ(function_name("fopen@@GLIBC_2.2.5"), "fopen");
    EXPECT_EQ(function_name("_ZN4core9panicking5panic17h0123456789abcdefE"), "core::panicking::panic");
    EXPECT_EQ(function_name("_Zgarbage"), "_Zgarbage");
    EXPECT_EQ(function_name(""), "");
    EXPECT_EQ(type_name_of_typeinfo("_ZTISt13runtime_error"), "std::runtime_error");
    EXPECT_EQ(type_name_of_typeinfo("St12out_of_range"), "std::out_of_range");
    EXPECT_EQ(type_name_of_typeinfo("i"), "int");
    EXPECT_EQ(type_name_of_typeinfo("*N12_GLOBAL__N_15errorE"), "(anonymous namespace)::error");
    EXPECT_EQ(type_name_of_typeinfo("_ZTV1A"), "");
}

TEST(UnwindNames, TakeNoLongerThanTheirCap) {
    std::string deep = "_ZN";
    for (int i = 0; i < 100000; ++i)
        deep += "1a";
    EXPECT_EQ(function_name(deep + "Ev").size(), linkage_name_max);
    EXPECT_NE(function_name("_Z" + std::string(16000, 'P') + "i"), "");
}

TEST(UnwindPerfMap, TheLastOfTwoAtOnePlaceHolds) {
    const std::string text = "1000 20 old name\n1000 10 new name\n2000 8 other\n";
    const PerfMap map(text);
    ASSERT_TRUE(map.find(0x1004));
    EXPECT_EQ(map.find(0x1004)->name, "new name");
    EXPECT_EQ(map.find(0x1010), nullptr);
    EXPECT_EQ(map.find(0x2007)->name, "other");
    EXPECT_EQ(map.find(0xfff), nullptr);
    EXPECT_EQ(map.bad_lines(), 0u);
}

TEST(UnwindPerfMap, GarbageIsCountedAndHarmless) {
    std::mt19937 random(7);
    std::string text = "1000 10 fine\n";
    for (int i = 0; i < 200000; ++i)
        text += static_cast<char>(random());
    text += "\n\n\nffffffffffffffff ffffffffffffffff overflow\n10 0 empty\nzz 10 x\n10 10\n";
    const PerfMap map(text);
    EXPECT_EQ(map.find(0x1004)->name, "fine");
    EXPECT_GT(map.bad_lines(), 3u);
    const PerfMap endless("\n\n\n");
    EXPECT_EQ(endless.bad_lines(), 0u);
    EXPECT_LE(PerfMap("1 1 " + std::string(10000, 'x')).find(1)->name.size(), PerfMap::name_max);
}

class Words : public ProcessMemory {
public:
    std::map<std::uint64_t, std::uint64_t> words;
    std::size_t read(std::uint64_t address, std::span<char> into) override {
        const auto found = words.find(address);
        if (found == words.end())
            return 0;
        const std::size_t count = std::min(into.size(), sizeof found->second);
        std::memcpy(into.data(), &found->second, count);
        return count;
    }
};

struct Code {
    Words memory;
    Registers registers{};
    Location run(std::vector<Dwarf_Op> ops, bool location = false) {
        const ExpressionContext context{registers, memory, LoadBias(0x1000), 0x7000, [] { return 0x8000; }};
        return location ? locate(ops, context) : compute(ops, context);
    }
};

TEST(UnwindExpression, ComputesAsDwarfSays) {
    Code code;
    code.registers[dwarf_rbp] = 0x500;
    code.memory.words[0x4f8] = 42;
    EXPECT_EQ(code.run({{DW_OP_breg6, static_cast<Dwarf_Word>(-8)}, {DW_OP_deref}}).value, 42u);
    EXPECT_EQ(code.run({{DW_OP_addr, 0x10}}, true).value, 0x1010u);
    EXPECT_EQ(code.run({{DW_OP_call_frame_cfa}, {DW_OP_plus_uconst, 8}}).value, 0x7008u);
    EXPECT_EQ(code.run({{DW_OP_fbreg, static_cast<Dwarf_Word>(-16)}}, true).value, 0x7ff0u);
    EXPECT_EQ(code.run({{DW_OP_lit5}, {DW_OP_lit3}, {DW_OP_minus}, {DW_OP_lit4}, {DW_OP_mul}}).value, 8u);
    EXPECT_EQ(code.run({{DW_OP_lit1}, {DW_OP_lit2}, {DW_OP_lit3}, {DW_OP_rot}}).value, 2u);
    EXPECT_EQ(code.run({{DW_OP_lit1}, {DW_OP_lit2}, {DW_OP_over}}).value, 1u);
    EXPECT_EQ(code.run({{DW_OP_lit7}, {DW_OP_lit2}, {DW_OP_lit3}, {DW_OP_pick, 2}}).value, 7u);
    // the PLT's: sp + 8 + ((pc & 15) >= 11) << 3
    code.registers[dwarf_rsp] = 0x600;
    code.registers[dwarf_rip] = 0x40102b;
    EXPECT_EQ(code.run({{DW_OP_breg7, 8},
                        {DW_OP_breg16, 0},
                        {DW_OP_lit15},
                        {DW_OP_and},
                        {DW_OP_lit11},
                        {DW_OP_ge},
                        {DW_OP_lit3},
                        {DW_OP_shl},
                        {DW_OP_plus}})
                  .value,
              0x610u);
    const Location in = code.run({{DW_OP_reg3}}, true);
    EXPECT_EQ(in.kind, Location::Kind::in_register);
    EXPECT_EQ(in.value, 3u);
    EXPECT_EQ(code.run({{DW_OP_lit3}, {DW_OP_stack_value}}, true).kind, Location::Kind::computed);
    EXPECT_EQ(code.run({}, true).kind, Location::Kind::absent);
}

TEST(UnwindExpression, NeitherLoopsNorReadsWhatIsNotThere) {
    Code code;
    Dwarf_Op back{DW_OP_skip, static_cast<Dwarf_Word>(-3), 0, 0};
    EXPECT_THAT(code.run({back}).why, HasSubstr("does not end"));
    EXPECT_THAT(code.run({{DW_OP_plus}}).why, HasSubstr("more than there is"));
    EXPECT_THAT(code.run({{DW_OP_lit1}, {DW_OP_lit0}, {DW_OP_div}}).why, HasSubstr("zero"));
    EXPECT_THAT(code.run({{DW_OP_consts, 1ull << 63}, {DW_OP_consts, ~0ull}, {DW_OP_div}}).why, HasSubstr("zero"));
    EXPECT_EQ(code.run({{DW_OP_lit1}, {DW_OP_constu, 100}, {DW_OP_shl}}).value, 0u);
    const Location gone = code.run({{DW_OP_constu, 0x123}, {DW_OP_deref}});
    EXPECT_EQ(gone.kind, Location::Kind::unknown);
    EXPECT_EQ(gone.unread, 0x123u);
    EXPECT_THAT(code.run({{DW_OP_breg3, 0}}).why, HasSubstr("rbx"));
    EXPECT_THAT(code.run({{DW_OP_breg31, 0}}).why, HasSubstr("not captured"));
    std::vector<Dwarf_Op> many(1000, {DW_OP_lit1});
    EXPECT_THAT(code.run(many).why, HasSubstr("too much stack"));
    EXPECT_THAT(code.run({{0xff}}).why, HasSubstr("not supported"));
}

class Bytes : public ProcessMemory {
public:
    Bytes(std::uint64_t start, std::string_view bytes) : start_(start), bytes_(bytes) {}
    std::size_t read(std::uint64_t address, std::span<char> into) override {
        if (address < start_ || address - start_ >= bytes_.size())
            return 0;
        return bytes_.copy(into.data(), into.size(), address - start_);
    }

private:
    std::uint64_t start_;
    std::string bytes_;
};

Instruction decoded(std::string_view bytes, user_regs_struct registers) {
    registers.rip = 0x1000;
    Bytes memory(0x1000, bytes);
    return instruction_at(registers, memory).value_or(Instruction{});
}

TEST(UnwindMachineCode, TellsTheMemoryAnInstructionAccesses) {
    user_regs_struct registers{};
    registers.rax = 0x10;
    registers.rbx = 0x100;
    registers.rcx = 3;
    registers.rsp = 0x8000;
    registers.fs_base = 0x70000;
    const Instruction load = decoded({"\x8b\x44\x8b\x08", 4}, registers); // mov 8(%rbx,%rcx,4),%eax
    ASSERT_TRUE(load.memory);
    EXPECT_EQ(load.text, "mov 0x8(%rbx,%rcx,4),%eax");
    EXPECT_EQ(load.memory->address, 0x114u);
    EXPECT_TRUE(load.memory->read);
    EXPECT_FALSE(load.memory->write);
    EXPECT_EQ(load.memory->bytes, 4u);
    EXPECT_EQ(load.memory->base, "rbx");
    EXPECT_EQ(load.memory->index, "rcx");
    EXPECT_EQ(load.memory->scale, 4u);
    const Instruction store = decoded({"\xc7\x00\x01\x00\x00\x00", 6}, registers); // movl $1,(%rax)
    EXPECT_TRUE(store.memory->write);
    EXPECT_EQ(store.memory->address, 0x10u);
    const Instruction relative = decoded({"\x48\x8b\x05\x10\x00\x00\x00", 7}, registers); // mov 0x10(%rip),%rax
    EXPECT_EQ(relative.memory->address, 0x1017u);
    const Instruction local = decoded({"\x64\x48\x8b\x04\x25\x28\x00\x00\x00", 9}, registers); // mov %fs:0x28,%rax
    EXPECT_EQ(local.memory->address, 0x70028u);
    EXPECT_EQ(local.memory->segment, "fs");
    const Instruction push = decoded({"\x55", 1}, registers);
    EXPECT_EQ(push.memory->address, 0x7ff8u);
    EXPECT_TRUE(push.memory->write);
    const Instruction call = decoded({"\xff\x10", 2}, registers); // call *(%rax)
    EXPECT_TRUE(call.is_call);
    EXPECT_EQ(call.memory->address, 0x10u);
    EXPECT_TRUE(decoded({"\xc3", 1}, registers).is_return);
    EXPECT_TRUE(decoded({"\xff\xe0", 2}, registers).is_jump);
    EXPECT_EQ(decoded({"\x48\x8d\x43\x08", 4}, registers).memory->bytes, 0u); // lea accesses nothing
    Bytes cut(0x1000, {"\x8b", 1});
    registers.rip = 0x1000;
    EXPECT_FALSE(instruction_at(registers, cut));
}

TEST(UnwindMachineCode, KnowsWhatStandsBeforeAReturnAddress) {
    Bytes direct(0x1000, {"\x90\x90\x90\xe8\x10\x00\x00\x00\x90", 9});
    EXPECT_EQ(call_before(0x1008, direct).kind, CallBefore::Kind::call);
    EXPECT_EQ(call_before(0x1008, direct).target, 0x1018u);
    EXPECT_EQ(call_before(0x2000, direct).kind, CallBefore::Kind::unknown);
    Bytes indirect(0x1000, {"\x90\x90\x90\x90\x90\x41\xff\x54\x24\x08", 10});
    EXPECT_EQ(call_before(0x100a, indirect).kind, CallBefore::Kind::call);
    Bytes none(0x1000, {"\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90", 10});
    EXPECT_EQ(call_before(0x100a, none).kind, CallBefore::Kind::no_call);
}

TEST(UnwindMachineCode, TellsWhereTheCallBeforeAReturnAddressLed) {
    user_regs_struct behind{};
    behind.rdx = 0;
    behind.rbx = 0x2000;
    behind.rsp = 0x7ff8;
    Bytes by_register(0x1000, {"\x90\x90\xff\xd2", 4}); // call *%rdx
    auto call = call_ending_at(0x1004, behind, by_register);
    ASSERT_TRUE(call);
    EXPECT_EQ(call->text, "call %rdx");
    EXPECT_EQ(call->target, 0u);
    Bytes direct(0x1000, {"\x90\x90\x90\xe8\x10\x00\x00\x00", 8});
    EXPECT_EQ(call_ending_at(0x1008, behind, direct)->target, 0x1018u);
    Bytes through_memory(0x1000, {"\x90\x90\xff\x53\x10", 5}); // call *0x10(%rbx), which was not captured
    call = call_ending_at(0x1005, behind, through_memory);
    ASSERT_TRUE(call);
    EXPECT_EQ(call->target, std::nullopt);
    Bytes none(0x1000, {"\x90\x90\x90\x90\x90\x90\x90\x90\x90\x90", 10});
    EXPECT_FALSE(call_ending_at(0x100a, behind, none));
}

ChildEnd run(const ChildCaps &caps, const std::function<void(const AnswerLine &)> &work,
             std::vector<std::string> *lines = nullptr) {
    return run_capped(
        caps, [&](const AnswerLine &answer, std::atomic<std::uint32_t> *) { work(answer); },
        [&](std::string_view line) {
            if (lines)
                lines->emplace_back(line);
        });
}

TEST(UnwindChild, AnswersInLines) {
    std::vector<std::string> lines;
    EXPECT_TRUE(
        run(
            {}, [](const AnswerLine &answer) { answer("one"), answer(std::string(200000, 'x')), answer(""); }, &lines)
            .done);
    EXPECT_THAT(lines, ElementsAre("one", std::string(200000, 'x'), ""));
}

TEST(UnwindChild, SaysWhatEndedIt) {
    EXPECT_EQ(run({}, [](const AnswerLine &) { raise(SIGSEGV); }).why, "SIGSEGV");
    EXPECT_EQ(run({}, [](const AnswerLine &) { std::abort(); }).why, "SIGABRT");
    EXPECT_THAT(run({}, [](const AnswerLine &) { raise(SIGKILL); }).why, StartsWith("SIGKILL"));
    EXPECT_THAT(run({}, [](const AnswerLine &) { throw 1; }).why, HasSubstr("could not go on"));
    std::function<int(int)> deep = [&](int n) {
        volatile char room[4096];
        room[0] = 1;
        return deep(n + 1) + room[0];
    };
    EXPECT_EQ(run({}, [&](const AnswerLine &) { deep(0); }).why, "SIGSEGV"); // its stack is full
}

TEST(UnwindChild, IsHeldToItsCaps) {
    ChildCaps caps;
    caps.cpu_seconds = 1;
    caps.time = std::chrono::minutes(10); // a machine with others on it may give it a second of CPU time only then
    EXPECT_THAT(run(caps,
                    [](const AnswerLine &) {
                        for (volatile unsigned i = 0;;)
                            i = i + 1;
                    })
                    .why,
                HasSubstr("1 s of CPU time"));
    caps = {};
    caps.time = std::chrono::milliseconds(200);
    EXPECT_THAT(run(caps, [](const AnswerLine &) { pause(); }).why, HasSubstr("200 ms"));
    // One that has closed its end of the pipe has said all.
    EXPECT_THAT(run({}, [](const AnswerLine &) { close_range(3, ~0u, 0), pause(); }).why, StartsWith("SIGKILL"));
#ifndef __SANITIZE_ADDRESS__ // whose allocator takes from address space reserved at the start: no limit holds there
    caps = {};
    caps.memory_bytes = 16u << 20;
    EXPECT_THAT(run(caps, [](const AnswerLine &) { std::string(64u << 20, 'x'); }).why, HasSubstr("16 MiB"));
#endif
    caps = {};
    caps.answer_bytes = 1000;
    EXPECT_THAT(run(caps,
                    [](const AnswerLine &answer) {
                        for (;;)
                            answer("again");
                    })
                    .why,
                HasSubstr("1000 bytes"));
}

TEST(UnwindChild, CanDoLittle) {
    std::vector<std::string> lines;
    run(
        {},
        [](const AnswerLine &answer) {
            answer(std::to_string(getuid()));
            answer(fork() < 0 ? "no fork" : "forked");
            rlimit limit{};
            getrlimit(RLIMIT_FSIZE, &limit);
            answer(std::to_string(limit.rlim_cur));
            answer(open("/etc/shadow", O_RDONLY) < 0 ? "no shadow" : "shadow");
        },
        &lines);
    if (geteuid() != 0)
        GTEST_SKIP() << "not root";
    EXPECT_THAT(lines, ElementsAre("65534", "no fork", "0", "no shadow"));
}

TEST(UnwindAnalysis, SurvivesItsJson) {
    Analysis analysis;
    analysis.threads.push_back({7, "CFI", true, "why", {Frame{}}});
    Frame &frame = analysis.threads[0].frames[0];
    frame.ip = 0xfffffffffffffff0;
    frame.module = "/lib/x.so";
    frame.symbol = "ns::f";
    frame.inlined = true;
    frame.line = 12;
    analysis.modules.push_back({"/lib/x.so", "ab12", "used", "none", "apt install x", true});
    analysis.instruction = Instruction{
        0x1000, "mov", Instruction::Operand{true, false, "rax", "", "fs", 8, -4, 0x30, 4}, true, false, true};
    analysis.interrupted = Interrupted{3, {{"rip", 0x1000}}, analysis.instruction, 11, 1, 0x10};
    analysis.call = CallToNowhere{"call *%rdx", 0};
    analysis.argument_frame = 1;
    analysis.arguments.push_back({0, "p", "char *", 0, true, "in rdi"});
    analysis.arguments.push_back({1, "n", "int", std::nullopt, false, "optimized out"});
    analysis.exception = Exception{"std::out_of_range", "too far"};
    analysis.notes = {"a note"};
    const Json json = to_json(analysis);
    EXPECT_EQ(to_json(from_json<Analysis>(json)), json);
}

TEST(UnwindAnalysis, AnAnswerMayBeAnything) {
    Findings findings;
    findings.stacks.resize(1);
    findings.modules.resize(1);
    for (const char *line :
         {"", "{", "[]", "1", R"({"thread":5,"stack":{}})", R"({"thread":-1,"stack":{"frames":5}})",
          R"({"index":99,"module":{}})", R"({"thread":0,"stack":{"frames":[1,null,{"ip":"x","line":-1,"symbol":[]}]}})",
          R"({"arguments":[[[]]]})", R"({"note":{}})"})
        add_answer(line, findings);
    ASSERT_TRUE(findings.stacks[0]);
    EXPECT_EQ(findings.stacks[0]->frames.size(), 3u);
    EXPECT_FALSE(findings.modules[0]);
    EXPECT_THAT(findings.notes, IsEmpty());
}

TEST(UnwindAnalysis, FramesArePrintedAsTheyAre) {
    Analysis analysis;
    ThreadStack &stack = analysis.threads.emplace_back();
    stack.how = "CFI";
    stack.reason = "the outermost frame (_start)";
    Frame frame;
    frame.ip = 0x401234;
    frame.module = "/opt/app";
    frame.symbol = "work";
    frame.symbol_offset = 0x12;
    frame.file = "/src/app.c";
    frame.line = 7;
    frame.how = "CFI";
    stack.frames.push_back(frame);
    frame.inlined = true;
    frame.how = "inline";
    stack.frames.push_back(frame);
    frame.inlined = false;
    frame.how = "tail call";
    stack.frames.push_back(frame);
    frame.how = "frame pointer";
    frame.symbol = frame.file = "";
    frame.offset = 0x1234;
    frame.line = 0;
    stack.frames.push_back(frame);
    const Json thread{{"stack", to_json(stack)}};
    EXPECT_THAT(stack_lines(thread, 10),
                ElementsAre("#0  0x0000000000401234 work+0x12 (/opt/app) at /src/app.c:7",
                            "#1  0x0000000000401234 work [inlined] (/opt/app) at /src/app.c:7",
                            "#2  0x0000000000401234 work+0x12 [tail call] (/opt/app) at /src/app.c:7",
                            "#3  0x0000000000401234 [by frame pointer] /opt/app+0x1234",
                            "(unwound by CFI to the outermost frame (_start))"));
}

TEST(UnwindText, FramesOfAPanicAreOneLine) {
    ThreadStack stack;
    stack.how = "CFI";
    for (const char *name : {"abort", "core::panicking::panic_fmt", "shapes::index", "shapes::main"})
        stack.frames.emplace_back().symbol = name;
    const Json thread{{"tid", 7}, {"stack", to_json(stack)}};
    const auto incident = [](std::size_t frames, int tid) {
        return Json{{"thread", {{"tid", tid}}},
                    {"verdict", {{"claims", Json::array({{{"panic", {{"of", "Rust"}, {"frames", frames}}}}})}}}};
    };
    const auto lines = [&](std::size_t frames, int tid, std::size_t most) {
        return stack_lines(thread, most, panic_frames(incident(frames, tid), thread));
    };
    const std::string folded = "(2 frames of Rust's panic machinery: incidentctl --json threads)";
    EXPECT_THAT(lines(2, 7, 10),
                ElementsAre(folded, testing::HasSubstr("#2 "), testing::HasSubstr("#3 "), "(unwound by CFI)"));
    EXPECT_THAT(lines(2, 7, 1),
                ElementsAre(folded, testing::HasSubstr("shapes::index"), "… 1 more frames", "(unwound by CFI)"));
    // Another thread, no panic, and a verdict that says more frames than there are.
    EXPECT_EQ(lines(2, 8, 10), stack_lines(thread, 10));
    EXPECT_EQ(lines(0, 7, 10), stack_lines(thread, 10));
    EXPECT_EQ(lines(4, 7, 10), stack_lines(thread, 10));
    EXPECT_EQ(lines(SIZE_MAX, 7, 10), stack_lines(thread, 10));
    EXPECT_EQ(stack_lines(thread, 10).size(), 5u);
}

TEST(UnwindInstallHint, NamesThePackageOfEachFile) {
    std::vector<ModuleState> modules{{"/usr/lib/x86_64-linux-gnu/libc.so.6", "ab", "used", "none", "", true},
                                     {"/usr/bin/redis", "cd", "used", "none", "", true},
                                     {"/opt/own", "ef", "used", "none", "", true},
                                     {"/usr/bin/*", "01", "used", "none", "", true},
                                     {"/usr/bin/fine", "02", "used", "in the file", "", true},
                                     {"/usr/bin/elsewhere", "03", "used", "none", "", false}};
    std::vector<std::string> asked;
    add_install_hints(modules, [&](const std::vector<std::string> &argv) {
        asked = argv;
        return "libc6:amd64: /lib/x86_64-linux-gnu/libc.so.6\nredis-tools: /usr/bin/redis\n\n: /\ngarbage\n";
    });
    EXPECT_EQ(modules[0].install, "apt install libc6-dbg");
    EXPECT_THAT(modules[1].install, StartsWith("apt install redis-tools-dbgsym"));
    EXPECT_THAT(modules[2].install, HasSubstr("DEBUGINFOD_URLS"));
    EXPECT_THAT(modules[3].install, HasSubstr("DEBUGINFOD_URLS"));
    EXPECT_THAT(asked, testing::Not(testing::Contains("/usr/bin/*")));
    EXPECT_EQ(modules[4].install, "");
    EXPECT_EQ(modules[5].install, "");
}

TEST(UnwindInstallHint, AsksDpkgItself) {
    std::vector<ModuleState> modules{{"/usr/bin/perl", "ab", "used", "none", "", true}};
    add_install_hints(modules);
    EXPECT_THAT(modules[0].install, StartsWith("apt install perl-base-dbgsym"));
}

} // namespace
} // namespace incident::postmortem
