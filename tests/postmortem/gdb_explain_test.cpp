// `incident explain`: every claim is compared with gdb's own answer, or the kernel's list of mappings.
#include "gdb_bundle.h"

#include "capture/os/maps.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <regex>

namespace incident::postmortem::test {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

namespace {

// As the commands write it.
std::string distance(std::uint64_t bytes) {
    return bytes < 10 ? fmt::format("{} byte{}", bytes, bytes == 1 ? "" : "s")
                      : fmt::format("{} bytes (0x{:x})", bytes, bytes);
}

std::string one_line(std::string text) {
    return text.substr(0, text.find('\n'));
}

} // namespace

class GdbExplain : public testing::Test {
protected:
    void SetUp() override {
        std::string why;
        auto made = GdbBundle::make(state, why);
        if (!made)
            GTEST_SKIP() << why;
        bundle = std::move(*made);
        maps = capture::Maps::parse(bundle.read("process/maps"));
    }
    std::string thread(int number) const {
        return fmt::format("thread {} (tid {})", number, bundle.tid(static_cast<std::size_t>(number - 1)));
    }
    State state;
    GdbBundle bundle;
    capture::Maps maps;
};

TEST_F(GdbExplain, SymbolsAndSourceAreGdbsOwn) {
    const auto said = bundle.ask({"incident explain main", "info symbol main", "info line *main",
                                  "incident explain &table[1]", "info symbol &table[1]", "incident explain &read",
                                  "info symbol &read", "incident explain heap", "info symbol heap"});
    for (const char *what : {"main", "&table[1]", "&read"})
        EXPECT_THAT(labelled(said.at(std::string("incident explain ") + what), "symbol"),
                    ElementsAre(one_line(said.at(std::string("info symbol ") + what))));
    const auto source = labelled(said.at("incident explain main"), "source");
    ASSERT_EQ(source.size(), 1u);
    const std::size_t colon = source[0].rfind(':');
    EXPECT_THAT(said.at("info line *main"), AllOf(StartsWith("Line " + source[0].substr(colon + 1) + " of "),
                                                  HasSubstr(source[0].substr(0, colon))));
    EXPECT_THAT(said.at("info symbol heap"), StartsWith("No symbol matches"));
    EXPECT_THAT(labelled(said.at("incident explain heap"), "symbol"), IsEmpty());
}

TEST_F(GdbExplain, MappingsAreThoseOfTheProcessAndOfGdb) {
    const auto said =
        bundle.ask({"incident explain &read", "print &read", "info proc mappings", "incident explain heap",
                    "print heap", "incident explain fixed+16", "incident explain $sp"});
    const std::uint64_t read = printed_number(said.at("print &read"));
    const capture::Mapping *mapping = maps.find(UserAddress(read));
    ASSERT_TRUE(mapping);
    const std::uint64_t offset = mapping->offset_of(UserAddress(read)).value;
    const auto lines = labelled(said.at("incident explain &read"), "mapping");
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_THAT(lines[0],
                AllOf(StartsWith(mapping->path + " r-xp "), HasSubstr(fmt::format("file offset 0x{:x}", offset))));
    // gdb's own list: start, end, size, offset, file
    bool found = false;
    std::istringstream in(said.at("info proc mappings"));
    for (std::string line; std::getline(in, line);) {
        std::uint64_t start = 0, end = 0, size = 0, from = 0;
        char path[256] = "";
        if (std::sscanf(line.c_str(), " %lx %lx %lx %lx %255s", &start, &end, &size, &from, path) == 5 &&
            start <= read && read < end) {
            found = true;
            EXPECT_EQ(path, mapping->path);
            EXPECT_EQ(from + read - start, offset);
        }
    }
    EXPECT_TRUE(found) << said.at("info proc mappings");

    const std::uint64_t heap = printed_number(said.at("print heap"));
    const std::uint64_t heap_start = maps.find(UserAddress(heap))->start.value;
    EXPECT_THAT(labelled(said.at("incident explain heap"), "mapping"),
                ElementsAre(AllOf(StartsWith("[heap] rw-p "), HasSubstr(distance(heap - heap_start) + " into it"))));
    EXPECT_THAT(labelled(said.at("incident explain heap"), "heap"), testing::SizeIs(1));
    EXPECT_THAT(labelled(said.at("incident explain fixed+16"), "mapping"),
                ElementsAre("anonymous memory r--p 0x200000000000-0x200000002000, 8.0 KiB: 16 bytes (0x10) into it"));
    EXPECT_THAT(labelled(said.at("incident explain fixed+16"), "access"),
                ElementsAre("its permissions forbid writing, executing"));
    EXPECT_THAT(labelled(said.at("incident explain $sp"), "mapping"), ElementsAre(StartsWith("[stack] rw-p ")));
}

TEST_F(GdbExplain, NearMissesAndHistory) {
    const auto said = bundle.ask({"print halved", "incident explain halved+524288+8", "incident explain halved+524288",
                                  "incident explain halved+16", "incident explain 0x200000002008",
                                  "incident explain 0x1fffffffff00"});
    const std::uint64_t half = printed_number(said.at("print halved")) + (1u << 19);
    const auto past = labelled(said.at("incident explain halved+524288+8"), "below");
    EXPECT_THAT(past, ElementsAre(AllOf(StartsWith("8 bytes past the end of anonymous memory rw-p "),
                                        HasSubstr(fmt::format("-0x{:x},", half)))));
    EXPECT_THAT(labelled(said.at("incident explain halved+524288+8"), "mapping"), ElementsAre("not mapped"));
    EXPECT_EQ(maps.find(UserAddress(half + 8)), nullptr);
    EXPECT_THAT(labelled(said.at("incident explain halved+524288"), "below"),
                ElementsAre(StartsWith("the first byte past the end of anonymous memory rw-p ")));
    EXPECT_THAT(labelled(said.at("incident explain 0x200000002008"), "below"),
                ElementsAre("8 bytes past the end of anonymous memory r--p 0x200000000000-0x200000002000, 8.0 KiB"));
    EXPECT_THAT(labelled(said.at("incident explain 0x1fffffffff00"), "above"),
                ElementsAre("256 bytes (0x100) before the start of anonymous memory r--p "
                            "0x200000000000-0x200000002000, 8.0 KiB"));

    const auto history = labelled(said.at("incident explain halved+524288+8"), "history");
    ASSERT_EQ(history.size(), 2u);
    EXPECT_THAT(history[0], StartsWith("mapped at -900.0 µs by mmap(NULL, 1048576, "));
    EXPECT_EQ(history[1],
              fmt::format("unmapped at -800.0 µs by munmap(0x{:x}, 524288) = 0 <2.50 µs>, {}", half, thread(1)));
    EXPECT_THAT(labelled(said.at("incident explain halved+16"), "history"),
                ElementsAre(StartsWith("mapped at -900.0 µs")));
    EXPECT_THAT(labelled(said.at("incident explain 0x200000002008"), "history"), IsEmpty());
}

TEST_F(GdbExplain, StacksFramesAndVariables) {
    // Thread 2: the frame of reader(), its caller's stack pointer, and its variable.
    const auto said = bundle.ask({"thread 2", "print $sp", "frame function reader", "print $sp", "print &local[5]",
                                  "incident explain &local[5]", "up", "print/x $sp", "incident explain $sp-1",
                                  "incident explain $sp", "frame", "thread 1", "frame function main", "print &mine[3]",
                                  "print (long)$sp", "incident explain &mine[3]", "info frame"});
    // ask() keeps the last of equal commands: the second "print $sp" is that of reader().
    const std::uint64_t reader_sp = printed_number(said.at("print $sp")),
                        local = printed_number(said.at("print &local[5]"));
    const std::uint64_t caller_sp = printed_number(said.at("print/x $sp"));
    ASSERT_TRUE(reader_sp <= local && local < caller_sp);
    const std::string &explained = said.at("incident explain &local[5]");
    EXPECT_THAT(labelled(explained, "stack"), ElementsAre(StartsWith(thread(2) + ": ")));
    const std::string number = said.at("frame function reader").substr(0, said.at("frame function reader").find(' '));
    EXPECT_THAT(labelled(explained, "frame"),
                ElementsAre(fmt::format("{} reader, {} above its stack pointer", number, distance(local - reader_sp))));
    EXPECT_THAT(labelled(explained, "variable"), ElementsAre("local + 5 bytes"));
    // Just below the caller's stack pointer is still the reader's, at it no more.
    EXPECT_THAT(labelled(said.at("incident explain $sp-1"), "frame"), ElementsAre(StartsWith(number + " reader, ")));
    const std::string caller = said.at("frame").substr(0, said.at("frame").find(' '));
    EXPECT_THAT(labelled(said.at("incident explain $sp"), "frame"),
                ElementsAre(StartsWith(caller + " start_thread, 0 bytes")));

    // main is the last frame gdb shows: its end is what `info frame` says.
    const std::uint64_t mine = printed_number(said.at("print &mine[3]"));
    const std::uint64_t main_sp = printed_number(said.at("print (long)$sp"));
    EXPECT_THAT(labelled(said.at("incident explain &mine[3]"), "frame"),
                ElementsAre("#1 main, " + distance(mine - main_sp) + " above its stack pointer"));
    EXPECT_THAT(labelled(said.at("incident explain &mine[3]"), "variable"), ElementsAre("mine + 3 bytes"));
    EXPECT_THAT(said.at("info frame"), HasSubstr("Stack level 1, frame at"));
}

TEST_F(GdbExplain, BelowTheStack) {
    const auto sp = bundle.ask({"thread 3", "print $sp"});
    const std::uint64_t pointer = printed_number(sp.at("print $sp"));
    const capture::Mapping *stack = maps.find(UserAddress(pointer));
    ASSERT_TRUE(stack);
    const capture::Mapping *guard = maps.find(stack->start - 8);
    ASSERT_TRUE(guard && !guard->read && !guard->write); // glibc's
    const auto explain = [](std::uint64_t address) { return fmt::format("incident explain 0x{:x}", address); };
    const std::uint64_t before = (stack->start - 8).value;
    const auto said = bundle.ask({explain(pointer), explain(pointer - 128), explain(pointer - 129), explain(before),
                                  explain(guard->start.value)});
    EXPECT_THAT(labelled(said.at(explain(pointer)), "stack"), ElementsAre(thread(3) + ": at the stack pointer"));
    EXPECT_THAT(labelled(said.at(explain(pointer - 128)), "stack"),
                ElementsAre(thread(3) + ": 128 bytes (0x80) below the stack pointer",
                            "in the red zone, 128 bytes that a leaf function may use"));
    EXPECT_THAT(
        labelled(said.at(explain(pointer - 129)), "stack"),
        ElementsAre(thread(3) + ": 129 bytes (0x81) below the stack pointer", "below the stack pointer: no frame's"));
    const auto in_guard = labelled(said.at(explain(before)), "stack");
    ASSERT_EQ(in_guard.size(), 2u);
    EXPECT_EQ(in_guard[0], "in the guard below the stack of " + thread(3) + ", 8 bytes before its lowest byte");
    EXPECT_THAT(labelled(said.at(explain(before)), "access"),
                ElementsAre("its permissions forbid reading, writing, executing"));
    EXPECT_THAT(labelled(said.at(explain(guard->start.value)), "stack"), testing::SizeIs(2));
}

TEST_F(GdbExplain, TheStackThatGrowsAndItsLimit) {
    const capture::Mapping *stack = nullptr;
    for (const capture::Mapping &mapping : maps.all())
        if (mapping.path == "[stack]")
            stack = &mapping;
    ASSERT_TRUE(stack);
    bundle.write("process/limits", "Limit  Soft Limit  Hard Limit  Units\nMax stack size  8388608  unlimited  bytes\n");
    const std::string near = fmt::format("incident explain 0x{:x}", (stack->start - 16).value);
    const std::string far = fmt::format("incident explain 0x{:x}", (stack->start - (2u << 20)).value);
    const auto said = bundle.ask({near, far});
    const auto lines = labelled(said.at(near), "stack");
    ASSERT_EQ(lines.size(), 2u) << said.at(near);
    EXPECT_EQ(lines[0], "16 bytes (0x10) below the stack of " + thread(1));
    EXPECT_THAT(lines[1], HasSubstr("of at most 0x800000 bytes (8.0 MiB)"));
    EXPECT_THAT(labelled(said.at(far), "stack"), IsEmpty());
}

TEST_F(GdbExplain, TheFaultingAddress) {
    const auto said =
        bundle.ask({"incident explain", "x/i $pc", "print $_siginfo._sifields._sigfault.si_addr", "print $rax"});
    const std::string &explained = said.at("incident explain");
    EXPECT_THAT(explained, StartsWith("0x8  the address of SIGSEGV (SEGV_MAPERR)\n"));
    EXPECT_EQ(printed_number(said.at("print $_siginfo._sifields._sigfault.si_addr")), 8u);
    EXPECT_THAT(labelled(explained, "null"), ElementsAre("in the first page, at offset 8 (0x8) of a null pointer"));
    EXPECT_THAT(labelled(explained, "mapping"), ElementsAre("not mapped"));
    // The operand is one of the instruction that gdb shows, and its register has that value.
    const auto access = labelled(explained, "access");
    ASSERT_EQ(access.size(), 1u) << explained;
    EXPECT_THAT(access[0],
                AllOf(StartsWith(thread(1) + " was at '"), HasSubstr("0x8(%rax) is this address, with rax = 0x0")));
    EXPECT_THAT(said.at("x/i $pc"), HasSubstr("0x8(%rax)"));
    EXPECT_EQ(printed_number(said.at("print $rax")), 0u);
}

TEST(GdbExplainOverflow, TheStackTheGuardAndThePush) {
    State state;
    std::string why;
    const auto bundle = GdbBundle::make(state, why, "VICTIM_OVERFLOW=1");
    if (!bundle)
        GTEST_SKIP() << why;
    const auto said = bundle->ask({"incident explain", "print $sp", "print $_siginfo._sifields._sigfault.si_addr",
                                   "x/i $pc", "incident explain $sp+0x80000"});
    const std::uint64_t fault = printed_number(said.at("print $_siginfo._sifields._sigfault.si_addr"));
    const std::uint64_t sp = printed_number(said.at("print $sp"));
    const capture::Maps maps = capture::Maps::parse(bundle->read("process/maps"));
    const capture::Mapping *stack = maps.find(UserAddress(fault + 4096));
    ASSERT_TRUE(stack && stack->path == "[stack]");
    const std::string &explained = said.at("incident explain");
    const std::string thread = fmt::format("thread 1 (tid {})", bundle->tid(0));
    EXPECT_THAT(labelled(explained, "mapping"), ElementsAre("not mapped"));
    const auto lines = labelled(explained, "stack");
    ASSERT_EQ(lines.size(), 2u) << explained;
    EXPECT_EQ(lines[0], distance(stack->start - UserAddress(fault)) + " below the stack of " + thread);
    // Which instruction runs out of the stack depends on where it began.
    if (fault == sp - 8) {
        EXPECT_THAT(labelled(explained, "access"), ElementsAre(HasSubstr("which pushes to this address, with rsp = ")));
        EXPECT_THAT(said.at("x/i $pc"), testing::AnyOf(HasSubstr("\tcall"), HasSubstr("\tpush")));
    }
    EXPECT_THAT(labelled(said.at("incident explain $sp+0x80000"), "frame"),
                ElementsAre("of none of the first 2000 frames"));
}

TEST_F(GdbExplain, RegistersOfAllThreads) {
    const auto asked = bundle.ask({"thread 2", "frame function reader", "incident explain local", "print &local"});
    const std::uint64_t local = printed_number(asked.at("print &local"));
    const auto lines = labelled(asked.at("incident explain local"), "registers");
    EXPECT_THAT(lines, Contains("rsi of " + thread(2) + " is this address")); // read()'s second argument
    const std::regex form(
        "(r\\w+) of thread (\\d+) \\(tid (\\d+)\\) (?:is this address|points (\\d+) bytes?(?: \\(0x[0-9a-f]+\\))? "
        "(above|below) it)");
    for (const std::string &line : lines) {
        std::smatch match;
        ASSERT_TRUE(std::regex_match(line, match, form)) << line;
        const std::uint64_t off = match[4].matched ? std::strtoull(match[4].str().c_str(), nullptr, 10) : 0;
        const auto gdbs = bundle.ask({"thread " + match[2].str(), "print/x $" + match[1].str()});
        EXPECT_EQ(printed_number(gdbs.at("print/x $" + match[1].str())),
                  match[5] == "below" ? local - off : local + off)
            << line;
        EXPECT_THAT(gdbs.at("thread " + match[2].str()), HasSubstr("LWP " + match[3].str()));
    }
}

TEST_F(GdbExplain, TheRestOfTheAddressSpace) {
    const auto said = bundle.ask({"incident explain 0x4141414141414141", "incident explain 0xffff888000000000",
                                  "incident explain 0xffffffffff600000", "incident explain 0x800000000000",
                                  "incident explain (void*)-1", "incident explain 0"});
    EXPECT_THAT(labelled(said.at("incident explain 0x4141414141414141"), "place"),
                ElementsAre("not canonical: no x86-64 address has these upper bits"));
    EXPECT_THAT(labelled(said.at("incident explain 0x4141414141414141"), "bytes"),
                ElementsAre("in memory these are the characters \"AAAAAAAA\""));
    EXPECT_THAT(labelled(said.at("incident explain 0xffff888000000000"), "kernel"), testing::SizeIs(1));
    if (maps.find(UserAddress(0xffffffffff600000))) {
        EXPECT_THAT(labelled(said.at("incident explain 0xffffffffff600000"), "mapping"),
                    ElementsAre(StartsWith("[vsyscall] ")));
    }
    EXPECT_THAT(labelled(said.at("incident explain 0x800000000000"), "place"),
                ElementsAre(StartsWith("not canonical with 48")));
    EXPECT_THAT(said.at("incident explain (void*)-1"), StartsWith("0xffffffffffffffff  "));
    EXPECT_THAT(labelled(said.at("incident explain 0"), "null"), testing::SizeIs(1));
}

TEST_F(GdbExplain, LooksAroundWithoutMovingTheSelection) {
    const auto said = bundle.ask({"thread 2", "frame function reader", "incident explain $rsp", "frame", "thread"});
    EXPECT_EQ(said.at("frame"), said.at("frame function reader"));
    EXPECT_THAT(said.at("thread"), HasSubstr("Current thread is 2 "));
}

TEST_F(GdbExplain, WithoutTheMappingsItSaysLess) {
    std::filesystem::remove(bundle.path + "/process/maps");
    const auto said = bundle.ask({"incident explain halved+524288+8", "incident explain main", "thread 2",
                                  "frame function reader", "incident explain &local[5]", "incident explain heap"});
    EXPECT_THAT(said.at("incident explain halved+524288+8"), Not(HasSubstr("not mapped\n")));
    EXPECT_THAT(labelled(said.at("incident explain halved+524288+8"), "history"), testing::SizeIs(2));
    EXPECT_THAT(labelled(said.at("incident explain main"), "mapping"), ElementsAre(HasSubstr("/victim ")));
    EXPECT_THAT(labelled(said.at("incident explain main"), "symbol"), ElementsAre(StartsWith("main in section .text")));
    EXPECT_THAT(labelled(said.at("incident explain &local[5]"), "frame"), ElementsAre(HasSubstr(" reader, ")));
    EXPECT_THAT(labelled(said.at("incident explain heap"), "mapping"),
                ElementsAre("in no file's mapping; the bundle has no list of the others (process/maps)"));
}

TEST_F(GdbExplain, WhatCannotBeExplainedIsSaid) {
    EXPECT_THAT(bundle.open({"incident explain 1.5"}), HasSubstr("'1.5' has no address for its value"));
    EXPECT_THAT(bundle.open({"incident explain $rsp->"}), HasSubstr("A syntax error in expression"));
    EXPECT_THAT(bundle.open({"incident explain nosuch"}), HasSubstr("No symbol \"nosuch\" in current context"));
    Json incident = bundle.incident;
    incident["signal"] = {
        {"name", "SIGSEGV"}, {"code", 128}, {"code_name", "SI_KERNEL"}, {"address", "0x0"}, {"fatal", true}};
    bundle.write("incident.json", incident.dump());
    EXPECT_THAT(bundle.open({"incident explain"}),
                HasSubstr("this SIGSEGV (SI_KERNEL) has no address: a general protection fault"));
    incident["signal"] = {{"name", "SIGKILL"}, {"code", 0}, {"fatal", true}};
    bundle.write("incident.json", incident.dump());
    EXPECT_THAT(bundle.open({"incident explain"}), HasSubstr("SIGKILL has no address: give one, or an expression"));
}

// Calls as they stand in timelines, and what they prove about an address.
TEST_F(GdbExplain, HistoryOfEveryKindOfCall) {
    const auto event = [](int at, const char *name, const char *rest) {
        return fmt::format(R"({{"t_ns":{},"tid":1,"kind":"syscall","name":"{}","error":null,{}}})"
                           "\n",
                           1'000'000'000 - at, name, rest);
    };
    bundle.write(
        "timeline.jsonl",
        event(9000, "mmap", R"("args":["0x300000000000","4096"],"ret":52776558133248)") +
            R"({"t_ns":999991500,"tid":1,"kind":"exec","name":"exec"})"
            "\n" +
            event(8000, "mmap", R"("args":["NULL","4097"],"ret":52776558133248,"ret_text":"0x300000000000")") +
            event(7000, "mprotect", R"("args":["0x300000001000","1","PROT_NONE"],"ret":0)") +
            event(6000, "mremap", R"("args":["0x300000000000","8192","4096","0"],"ret":52776558133248)") +
            event(5000, "munmap", R"("args":["0x300000000000","1"],"ret":-22,"error":"EINVAL")") +
            event(4000, "mremap", R"("args":["0x300000000000","4096","4096","MREMAP_MAYMOVE"],"ret":52776558198784)") +
            event(3000, "munmap", R"("args":["0x300000010000","4096"],"ret":null,"in_flight":true)") +
            R"({"t_ns":999998000,"kind":"alloc","name":"brk","ret":52776559185920,"error":null,"memory":{"delta":4096}})"
            "\n"
            R"({"t_ns":999999000,"tid":1,"kind":"alloc","name":"munmap","ret":52776559181824,"error":null,"memory":{"delta":-4096}})"
            "\n");
    const auto history = [&, said = bundle.ask({"incident explain 0x300000000010", "incident explain 0x300000001010",
                                                "incident explain 0x300000010010", "incident explain 0x300000100010",
                                                "incident explain 0x300000101010"})](const char *address) {
        return labelled(said.at(std::string("incident explain ") + address), "history");
    };
    EXPECT_THAT(
        history("0x300000000010"), // nothing of before the exec, nothing of the call that failed
        ElementsAre(StartsWith("mapped at -8.000 µs by mmap(NULL, 4097)"),
                    StartsWith("moved away at -4.000 µs by mremap(0x300000000000, 4096, 4096, MREMAP_MAYMOVE)")));
    EXPECT_THAT(history("0x300000001010"), ElementsAre(StartsWith("mapped at -8.000 µs by mmap"),
                                                       StartsWith("its protection set at -7.000 µs by mprotect"),
                                                       StartsWith("unmapped at -6.000 µs by mremap")));
    EXPECT_THAT(history("0x300000010010"), ElementsAre(StartsWith("mapped at -4.000 µs by mremap"),
                                                       StartsWith("being unmapped at -3.000 µs by munmap")));
    EXPECT_THAT(history("0x300000100010"),
                ElementsAre("mapped at -2.000 µs by *** alloc brk {+4.0 KiB} ***, a thread that is not named",
                            StartsWith("unmapped at -1.000 µs by *** alloc munmap")));
    EXPECT_THAT(history("0x300000101010"), IsEmpty());
}

} // namespace incident::postmortem::test
