// Jumps to where no code is, stacks that are used up, and facts close to them.
#include "near_miss.h"

namespace incident::postmortem::test {

namespace {

using S = Sentence;

void jumped(LabEvidence &f, std::uint64_t address) {
    f.registers().rip = address;
    f.frames({"", "main"});
    f.maperr(address);
}

void called_null(LabEvidence &f) {
    jumped(f, 0);
    f.analysis.threads[0].frames[1].how = "return address at the stack pointer";
    f.analysis.call = CallToNowhere{"call *%rdx", 0};
}

void ran_data(LabEvidence &f) {
    f.registers().rip = 0x404020;
    f.accerr(0x404020);
}

void returns_to(LabEvidence &f, std::uint64_t address) {
    f.instruction("ret");
    f.analysis.instruction->is_return = true;
    f.word(f.registers().rsp, address);
    f.fault(SIGSEGV, SI_KERNEL, "SI_KERNEL", 0);
}

void overflowed(LabEvidence &f) {
    f.small_stack();
    f.registers().rsp = 0x70001000;
    f.accerr(0x70000ff8);
}

void recursed(LabEvidence &f, const std::vector<std::string> &names, std::uint64_t period) {
    overflowed(f);
    f.frames(names);
    for (std::uint64_t i = 0; auto &frame : f.analysis.threads[0].frames)
        frame.ip = LabEvidence::code + 16 * (i++ % period);
}

} // namespace

std::vector<SentenceCase> jump_cases() {
    return {
        {S::jump_to_null,
         [](LabEvidence &f) { jumped(f, 0); },
         {{"close to null", [](LabEvidence &f) { jumped(f, 8); }},
          {"an access to null from where code is", [](LabEvidence &f) { f.registers().rip = LabEvidence::code; }},
          {"something is mapped there", [](LabEvidence &f) { f.accerr(0); }}}},
        {S::null_call,
         called_null,
         {{"the call before leads to a function, which jumped on",
           [](LabEvidence &f) { f.analysis.call->target = 0x401020; }},
          {"where the call leads is not known", [](LabEvidence &f) { f.analysis.call->target.reset(); }},
          {"what is on top of the stack is no return address",
           [](LabEvidence &f) { f.analysis.threads[0].frames[1].how = "CFI"; }}}},
        {S::jump_close_to_null,
         [](LabEvidence &f) { jumped(f, 0x10); },
         {{"not close", [](LabEvidence &f) { jumped(f, 65536); }},
          {"an access to there", [](LabEvidence &f) { f.registers().rip = LabEvidence::code; }},
          {"null itself", [](LabEvidence &f) { jumped(f, 0); }}}},
        {S::jump_not_executable,
         ran_data,
         {{"it can be executed", [](LabEvidence &f) { f.maps("00404000-00405000 rwxp 00004000 08:01 7 /bin/x\n"); }},
          {"an access to the next word", [](LabEvidence &f) { f.accerr(0x404028); }},
          {"nothing was mapped there", [](LabEvidence &f) { f.maperr(0x404020); }}}},
        {S::jump_unmapped,
         [](LabEvidence &f) { jumped(f, 0x123456789000); },
         {{"maps were not captured whole", [](LabEvidence &f) { f.image.maps_whole = false; }},
          {"something was mapped there", [](LabEvidence &f) { f.accerr(0x123456789000); }},
          {"an access to there", [](LabEvidence &f) { f.registers().rip = LabEvidence::code; }},
          {"the kernel is mapped there", [](LabEvidence &f) { jumped(f, 0xffffffff81000000); }}}},
        {S::jump_to_kernel,
         [](LabEvidence &f) { jumped(f, 0xffffffff81000000); },
         {{"just below", [](LabEvidence &f) { jumped(f, 0xffff7ffffffff000); }},
          {"a read of the kernel's memory", [](LabEvidence &f) { f.registers().rip = LabEvidence::code; }},
          {"the page of vsyscalls",
           [](LabEvidence &f) {
               jumped(f, 0xffffffffff600800);
               f.maps("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n");
           }}}},
        {S::impossible_return,
         [](LabEvidence &f) { returns_to(f, 0x4141414141414141); },
         {{"no return instruction", [](LabEvidence &f) { f.analysis.instruction->is_return = false; }},
          {"what it returns to was not captured", [](LabEvidence &f) { f.registers().rsp += 64; }},
          {"it returns to what may be code",
           [](LabEvidence &f) {
               f.registers().rsp += 8;
               f.word(f.registers().rsp, 0x401000);
           }}}},
        {S::stack_overflow,
         overflowed,
         {{"a negative index, with a page of room left", [](LabEvidence &f) { f.registers().rsp = 0x70002000; }},
          {"far below the stack pointer", [](LabEvidence &f) { f.accerr(0x70000100); }},
          {"no guard: whose end that is is not known",
           [](LabEvidence &f) { f.maps("70001000-70011000 rw-p 00000000 00:00 0\n"); }},
          {"what is above is no stack: it is not written to",
           [](LabEvidence &f) {
               f.maps("70000000-70001000 ---p 00000000 00:00 0\n70001000-70011000 r--p 00000000 00:00 0\n");
           }},
          {"a hole between the guard and it",
           [](LabEvidence &f) {
               f.maps("6ffff000-70000000 ---p 00000000 00:00 0\n70001000-70011000 rw-p 00000000 00:00 0\n");
           }}}},
        {S::calls_itself,
         [](LabEvidence &f) {
             recursed(f, {"leaf", "again", "again", "again", "again", "again", "again", "main"}, 1);
         },
         {{"three times only",
           [](LabEvidence &f) {
               recursed(f, {"leaf", "again", "again", "again"}, 1);
           }},
          {"two that call one another",
           [](LabEvidence &f) {
               recursed(f, {"a", "b", "a", "b", "a", "b", "a", "b", "a", "b", "a"}, 2);
           }},
          {"no two frames at the same call",
           [](LabEvidence &f) {
               recursed(f, {"leaf", "again", "again", "again", "again", "again", "again"}, 100);
           }},
          {"the stack has room left", [](LabEvidence &f) { f.registers().rsp = 0x70002000; }}}},
        {S::call_one_another,
         [](LabEvidence &f) {
             recursed(f, {"a", "b", "a", "b", "a", "b", "a", "b", "a", "b", "a", "b"}, 2);
         },
         {{"one that calls itself",
           [](LabEvidence &f) {
               recursed(f, {"a", "a", "a", "a", "a", "a", "a", "a", "a"}, 1);
           }},
          {"three rounds only",
           [](LabEvidence &f) {
               recursed(f, {"a", "b", "a", "b", "a", "b", "a"}, 2);
           }},
          {"from calls that differ",
           [](LabEvidence &f) {
               recursed(f, {"a", "b", "a", "b", "a", "b", "a", "b", "a", "b", "a", "b"}, 100);
           }}}},
    };
}

} // namespace incident::postmortem::test
