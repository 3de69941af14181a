// What a verdict says about a fault; for each sentence also similar evidence for which it must not be said.
#include "verdict_lab.h"

namespace incident::postmortem::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class FaultVerdict : public VerdictLab {};

TEST_F(FaultVerdict, ANullPointerIsARegisterThatHoldsZero) {
    accesses("rax", 0x148);
    maperr(0x148);
    EXPECT_EQ(said(), "null dereference: use() reads 4 bytes at offset 0x148 of a null pointer");
    accesses("rax", 0);
    maperr(0);
    EXPECT_EQ(said(), "null dereference: use() reads 4 bytes at a null pointer");
}

TEST_F(FaultVerdict, WhatIsCloseToNullNeedNotBeANullPointer) {
    struct {
        const char *what, *base, *index;
        std::int64_t displacement;
        std::uint64_t rax, rbx;
        const char *segment;
    } const cases[] = {
        {"an address that was written down: *(int *)8", "", "", 8, 0, 0, ""},
        {"a small number for a pointer", "rax", "", 0, 8, 0, ""},
        {"which register is the pointer and which the index is not known", "rax", "rbx", 0, 0, 8, ""},
        {"an index without a base", "", "rbx", 0, 0, 8, ""},
        {"thread-local storage that is not there", "rax", "", 8, 0, 0, "fs"},
        {"a stack pointer", "rsp", "", 8, 0, 0, ""},
    };
    for (const auto &each : cases) {
        registers().rax = each.rax;
        registers().rbx = each.rbx;
        const std::uint64_t rsp = std::exchange(registers().rsp, 0);
        accesses(each.base, each.displacement, each.index).segment = each.segment;
        maperr(8);
        EXPECT_EQ(said(), "bad address: use() reads 4 bytes at 0x8, in the lowest 64 KiB, where nothing is mapped")
            << each.what;
        registers().rsp = rsp;
    }
    accesses("rax", 0x10); // reads elsewhere than the fault was
    EXPECT_EQ(said(), "");
}

TEST_F(FaultVerdict, ARegisterThatNothingWroteToIsWhatTheFunctionWasEnteredWith) {
    accesses("rsi", 8);
    analysis.instruction->base_untouched = true;
    maperr(8);
    EXPECT_EQ(said(), "null dereference: use() reads 4 bytes at offset 0x8 of a null pointer; use() was entered with 0 "
                      "in rsi"); // which of its arguments that is, psABI's registers do not say
    analysis.threads[0].frames[0].inlined = true;
    EXPECT_THAT(said(), Not(HasSubstr("entered")));
    analysis.threads[0].frames[0].inlined = false;
    analysis.instruction->base_untouched = false;
    EXPECT_THAT(said(), Not(HasSubstr("entered")));
}

TEST_F(FaultVerdict, AnArgumentIsNamedWhereItIsTheOnlyNullOneOfThatFunction) {
    accesses("rax", 8);
    maperr(8);
    argument("item", 0);
    argument("other", 0x1000);
    EXPECT_THAT(said(), StartsWith("null dereference: "));
    EXPECT_THAT(said(), HasSubstr("; its argument item is null"));
    analysis.argument_frame = 1; // a caller's
    EXPECT_THAT(said(), Not(HasSubstr("argument")));
    analysis.argument_frame = 0;
    analysis.arguments[1].value = 0; // which of two?
    EXPECT_THAT(said(), Not(HasSubstr("argument")));
    registers().rax = 8; // no null dereference
    accesses("rax", 0);
    analysis.arguments[1].value = 1;
    EXPECT_THAT(said(), Not(HasSubstr("argument")));
}

TEST_F(FaultVerdict, NothingMapped) {
    registers().rax = 0x123456789000;
    accesses("rax", 0, "", true);
    maperr(0x123456789000);
    EXPECT_EQ(said(), "bad address: use() writes 4 bytes at 0x123456789000, where nothing is mapped");
    image.maps_whole = false; // it may have been mapped since
    EXPECT_EQ(said(), "");
    image.maps_whole = true;
    maps("123456789000-12345678a000 rw-p 00000000 00:00 0\n");
    EXPECT_EQ(said(), "");
    registers().rax = 0xffffffff81000000;
    accesses("rax", 0);
    maperr(0xffffffff81000000);
    EXPECT_EQ(said(), "bad address: use() reads 4 bytes at 0xffffffff81000000, which is the kernel's");
}

// A copy that runs off its page into one unmapped earlier looks like the use of what was unmapped.
TEST_F(FaultVerdict, ThatItWasUnmappedIsToldAndNotWhy) {
    registers().rax = 0x70001000;
    accesses("rax", 0, "", true);
    maperr(0x70001000);
    call_line(900, "mmap", {"0", "8192", "PROT_READ|PROT_WRITE", "MAP_PRIVATE", "-1", "0"}, 0x70000000);
    call_line(500, "munmap", {"0x70001000", "4096"}, 0);
    EXPECT_EQ(said(),
              "bad address: use() writes 4 bytes at 0x70001000, where nothing is mapped any more since a munmap()");
    EXPECT_THAT(verdict().claims[0].facts.back(),
                HasSubstr("thread 100 called munmap() of 0x70001000-0x70002000 0.001 ms before"));
}

// munmap(2) succeeds as well where nothing is mapped: without a record of what put it there the call is a fact only.
TEST_F(FaultVerdict, AMunmapOfNothingIsAFactOnly) {
    registers().rax = 0x70001000;
    accesses("rax", 0);
    maperr(0x70001000);
    call_line(500, "munmap", {"0x70001000", "4096"}, 0);
    EXPECT_EQ(said(), "bad address: use() reads 4 bytes at 0x70001000, where nothing is mapped");
    EXPECT_THAT(verdict().claims[0].facts.back(), HasSubstr("called munmap() of 0x70001000-0x70002000"));
}

TEST_F(FaultVerdict, NotEveryMunmapIsOfTheAddress) {
    registers().rax = 0x70001000;
    accesses("rax", 0);
    maperr(0x70001000);
    call_line(500, "munmap", {"0x70000000", "4096"}, 0);   // ends below
    call_line(500, "munmap", {"0x70001000", "4096"}, -22); // failed
    call_line(-500, "munmap", {"0x70001000", "4096"}, 0);  // afterwards
    call_line(500, "mmap", {"0x70001000", "4096"}, 0);     // no munmap
    EXPECT_EQ(said(), "bad address: use() reads 4 bytes at 0x70001000, where nothing is mapped");
}

TEST_F(FaultVerdict, NoPossibleAddress) {
    registers().rax = 0x4142434445464748;
    accesses("rax", 0);
    fault(SIGSEGV, SI_KERNEL, "SI_KERNEL", 0);
    EXPECT_EQ(said(), "bad address: use() reads 4 bytes at 0x4142434445464748, which is no possible address");
    registers().rax = 0x404000; // another general protection fault
    accesses("rax", 0);
    EXPECT_EQ(said(), "");
    registers().rax = 0x0001000000000000; // with five levels of page tables that is one
    accesses("rax", 0);
    maperr(0x0001000000000000);
    EXPECT_THAT(said(), Not(HasSubstr("no possible")));
}

TEST_F(FaultVerdict, AReturnToNoPossibleAddress) {
    analysis.instruction.emplace().address = code;
    analysis.instruction->is_return = true;
    const std::uint64_t word = 0x4141414141414141;
    image.memory.add(registers().rsp, {reinterpret_cast<const char *>(&word), sizeof word});
    fault(SIGSEGV, SI_KERNEL, "SI_KERNEL", 0);
    EXPECT_EQ(said(), "bad return address: use() returns to 0x4141414141414141, which is no possible address");
    analysis.instruction->is_return = false;
    EXPECT_EQ(said(), "");
    analysis.instruction->is_return = true;
    registers().rsp += 64; // not captured
    EXPECT_EQ(said(), "");
}

TEST_F(FaultVerdict, AJumpToNullIsACallWhereTheCallLedThere) {
    registers().rip = 0;
    frames({"", "main"});
    maperr(0);
    EXPECT_EQ(said(), "jump to null");
    analysis.threads[0].frames[1].how = "return address at the stack pointer";
    EXPECT_EQ(said(), "jump to null");
    analysis.call = CallToNowhere{"call 0x401020", 0x401020}; // a function that jumped on
    EXPECT_EQ(said(), "jump to null");
    analysis.call = CallToNowhere{"call *0x10(%rax)", std::nullopt};
    EXPECT_EQ(said(), "jump to null");
    analysis.call = CallToNowhere{"call *%rdx", 0};
    EXPECT_EQ(said(), "jump to null: a null function pointer was called");
}

TEST_F(FaultVerdict, JumpsToWhereNoCodeIs) {
    registers().rip = 0x123456789000;
    maperr(0x123456789000);
    EXPECT_EQ(said(), "jump to 0x123456789000, where nothing is mapped");
    image.maps_whole = false;
    EXPECT_EQ(said(), "");
    image.maps_whole = true;
    registers().rip = 0x404020;
    accerr(0x404020);
    EXPECT_EQ(said(), "jump into memory that is not executable: /bin/x (rw-)");
    registers().rip = code; // an access to where the instruction itself stands
    accerr(code);
    EXPECT_EQ(said(), "");
    registers().rip = 0x404020; // an access to elsewhere
    accerr(0x404028);
    EXPECT_EQ(said(), "");
}

TEST_F(FaultVerdict, WhatAMappingForbids) {
    registers().rax = 0x403010;
    accesses("rax", 0, "", true);
    accerr(0x403010);
    EXPECT_EQ(said(), "write to read-only memory: use() writes 4 bytes in /bin/x (r--)");
    accesses("rax", 0); // a read of what can be read: protection keys
    EXPECT_EQ(said(), "");
    registers().rax = 0x404010; // as it is mapped now
    accesses("rax", 0, "", true);
    accerr(0x404010);
    EXPECT_EQ(said(), "");
    maps("00500000-00501000 ---p 00000000 00:00 0\n");
    registers().rax = 0x500010;
    accesses("rax", 0);
    accerr(0x500010);
    EXPECT_EQ(said(), "access to memory without permission: use() reads 4 bytes in anonymous memory (---)");
    accesses("rax", 64); // elsewhere
    EXPECT_EQ(said(), "");
}

class Overflow : public FaultVerdict {
protected:
    void at(std::uint64_t rsp, std::uint64_t address) {
        registers().rsp = rsp;
        accerr(address);
    }
};

TEST_F(Overflow, TheStackPointerIsAtTheEnd) {
    small_stack();
    at(0x70001000, 0x70000ff8); // a call
    EXPECT_EQ(said(), "stack overflow: thread 100 has used up its 64 KiB of stack");
    at(0x70000800, 0x70000900); // a frame that lies beyond
    EXPECT_THAT(said(), StartsWith("stack overflow"));
    at(0x70001040, 0x70000fd0); // a leaf's red zone
    EXPECT_THAT(said(), StartsWith("stack overflow"));
}

TEST_F(Overflow, AWriteFarBelowTheStackPointerIsNone) {
    small_stack();
    accesses("rax", 0);
    for (const auto &[rsp, address] :
         {std::pair(0x70002000ull, 0x70000ff8ull), // a negative index, with room left
          std::pair(0x7000f000ull, 0x70000ff8ull), std::pair(0x70001000ull, 0x70000100ull)}) {
        at(rsp, address);
        EXPECT_THAT(said(), Not(HasSubstr("overflow"))) << std::hex << rsp;
    }
    maps("70001000-70011000 rw-p 00000000 00:00 0\n"); // no guard: whose end that is is not known
    at(0x70001000, 0x70000ff8);
    maperr(0x70000ff8);
    EXPECT_THAT(said(), Not(HasSubstr("overflow")));
}

TEST_F(Overflow, TheMainThreadsStackEndsAtItsLimit) {
    maps("7fff00000000-7fff00800000 rw-p 00000000 00:00 0 [stack]\n");
    registers().rsp = 0x7fff00000000;
    maperr(0x7ffefffffff8);
    limits("Max stack size             8388608              unlimited            bytes\n");
    EXPECT_EQ(said(), "stack overflow: thread 100 has used up its 8 MiB of stack");
    limits("Max stack size             67108864             unlimited            bytes\n"); // it could have grown
    EXPECT_EQ(said(), "");
    // The fault came although it could have grown: what lay below was in the way.
    limits("Max stack size             unlimited            unlimited            bytes\n");
    EXPECT_THAT(said(), StartsWith("stack overflow"));
}

TEST_F(Overflow, FramesThatRepeat) {
    small_stack();
    at(0x70001000, 0x70000ff8);
    frames({"recurse", "recurse", "recurse", "recurse", "recurse", "recurse", "main"});
    EXPECT_THAT(said(), HasSubstr("; recurse() calls itself"));
    frames({"recurse", "recurse", "recurse", "main"}); // three are no recursion without end
    for (std::size_t i = 0; auto &frame : analysis.threads[0].frames)
        frame.ip = code + 16 * i++;
    EXPECT_THAT(said(), Not(HasSubstr("itself")));
    frames({"a", "b", "c", "d", "e", "f"});
    for (std::size_t i = 0; auto &frame : analysis.threads[0].frames)
        frame.ip = code + 16 * i++;
    EXPECT_THAT(said(), Not(HasSubstr("recursion")));
}

TEST_F(FaultVerdict, APageThatCouldNotBeHad) {
    maps("00500000-00502000 rw-s 00000000 08:01 9 /tmp/data\n");
    fault(SIGBUS, BUS_ADRERR, "BUS_ADRERR", 0x501000);
    EXPECT_THAT(said(), StartsWith("a page of a mapped file could not be had (beyond its end"));
    fault(SIGBUS, BUS_ADRALN, "BUS_ADRALN", 0x501000);
    EXPECT_EQ(said(), "");
    fault(SIGBUS, BUS_ADRERR, "BUS_ADRERR", 0x600000);
    EXPECT_EQ(said(), "");
}

// A handler may pass the fault's siginfo on with a signal it sends itself: the same words, another place.
TEST_F(FaultVerdict, AForgedSiginfoIsNoFault) {
    accesses("rax", 8);
    maperr(8);
    registers().orig_rax = 297; // rt_tgsigqueueinfo
    EXPECT_EQ(said(), "");
    fault(SIGFPE, FPE_INTDIV, "FPE_INTDIV", code);
    analysis.instruction->text = "idiv %ecx";
    analysis.instruction->memory.reset();
    EXPECT_EQ(said(), "");
}

TEST_F(FaultVerdict, Divisions) {
    analysis.instruction.emplace().address = code;
    analysis.instruction->text = "idiv %ecx";
    fault(SIGFPE, FPE_INTDIV, "FPE_INTDIV", code);
    EXPECT_EQ(said(), "integer division by zero in use()");
    registers().rcx = 0xffffffff;
    EXPECT_EQ(said(), "integer division whose result does not fit, in use()");
    analysis.instruction->text = "idiv (%rax)"; // what it divides by was not captured
    accesses("rax", 0).bytes = 4;
    analysis.instruction->text = "idiv (%rax)";
    EXPECT_EQ(said(), "");
    analysis.instruction->text = "mov %ecx,%eax";
    EXPECT_EQ(said(), "");
    fault(SIGFPE, FPE_FLTDIV, "FPE_FLTDIV", code);
    EXPECT_EQ(said(), "");
}

TEST_F(FaultVerdict, Ud2) {
    analysis.instruction.emplace().address = code;
    analysis.instruction->text = "ud2";
    fault(SIGILL, ILL_ILLOPN, "ILL_ILLOPN", code);
    EXPECT_EQ(said(), "illegal instruction: use() came to ud2, which compilers put where a program is to stop");
    analysis.instruction->text = "vpaddd"; // not of this processor
    EXPECT_EQ(said(), "");
    analysis.instruction->address = code + 2; // of somewhere else
    analysis.instruction->text = "ud2";
    EXPECT_EQ(said(), "");
}

TEST_F(FaultVerdict, Seccomp) {
    fault(SIGSYS, 1, "SYS_SECCOMP", 0);
    const std::int32_t number = 110; // getppid
    const std::uint32_t arch = 0xc000003e;
    std::memcpy(image.siginfo.data() + 24, &number, sizeof number);
    std::memcpy(image.siginfo.data() + 28, &arch, sizeof arch);
    registers().orig_rax = 110;
    EXPECT_EQ(said(), "a seccomp filter stopped the system call getppid");
    registers().orig_rax = 297; // made up, and sent to itself
    EXPECT_EQ(said(), "");
    registers().orig_rax = 110;
    fault(SIGSYS, 2, "SYS_USER_DISPATCH", 0);
    EXPECT_EQ(said(), "");
}

} // namespace
} // namespace incident::postmortem::test
