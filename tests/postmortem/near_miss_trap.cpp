// Instructions and calls that bring a signal about, and facts close to them.
#include "near_miss.h"

#include <cstring>

namespace incident::postmortem::test {

namespace {

using S = Sentence;

void divides(LabEvidence &f, std::uint64_t by) {
    f.instruction("idiv %ecx");
    f.registers().rcx = by;
    f.fault(SIGFPE, FPE_INTDIV, "FPE_INTDIV", LabEvidence::code);
}

void ud2(LabEvidence &f) {
    f.instruction("ud2");
    f.fault(SIGILL, ILL_ILLOPN, "ILL_ILLOPN", LabEvidence::code);
}

void int3(LabEvidence &f) {
    f.fault(SIGTRAP, SI_KERNEL, "SI_KERNEL", 0);
    f.word(LabEvidence::code - 8, 0xcc90909090909090);
    f.analysis.threads[0].frames[0].symbol_offset = 9;
}

void refused(LabEvidence &f) {
    f.fault(SIGSYS, 1, "SYS_SECCOMP", 0);
    const std::int32_t number = 110; // getppid
    const std::uint32_t arch = 0xc000003e;
    std::memcpy(f.image.siginfo.data() + 24, &number, sizeof number);
    std::memcpy(f.image.siginfo.data() + 28, &arch, sizeof arch);
    f.registers().orig_rax = 110;
}

const std::vector<NearMiss> no_division = {
    {"the instruction is none", [](LabEvidence &f) { f.analysis.instruction->text = "mov %ecx,%eax"; }},
    {"a division of floating-point numbers",
     [](LabEvidence &f) { f.fault(SIGFPE, FPE_FLTDIV, "FPE_FLTDIV", LabEvidence::code); }},
    {"the fault was of another instruction",
     [](LabEvidence &f) { f.fault(SIGFPE, FPE_INTDIV, "FPE_INTDIV", LabEvidence::code + 3); }},
    {"what it divides by was not captured",
     [](LabEvidence &f) {
         f.accesses("rax", 0);
         f.analysis.instruction->text = "idivl (%rax)";
     }},
    {"a system call was under way: the siginfo was sent", [](LabEvidence &f) { f.registers().orig_rax = 297; }},
};

std::vector<NearMiss> and_also(std::vector<NearMiss> near_misses, NearMiss another) {
    near_misses.push_back(another);
    return near_misses;
}

} // namespace

std::vector<SentenceCase> trap_cases() {
    return {
        {S::division_by_zero, [](LabEvidence &f) { divides(f, 0); },
         and_also(no_division, {"by something else", [](LabEvidence &f) { f.registers().rcx = 1; }})},
        {S::division_too_large, [](LabEvidence &f) { divides(f, 0xffffffff); },
         and_also(no_division,
                  {"by zero, as the operand sees it", [](LabEvidence &f) { f.registers().rcx = 1ull << 32; }})},
        {S::came_to_ud2,
         ud2,
         {{"an instruction that this processor has not",
           [](LabEvidence &f) { f.analysis.instruction->text = "vpaddd"; }},
          {"the fault was of another instruction",
           [](LabEvidence &f) { f.fault(SIGILL, ILL_ILLOPN, "ILL_ILLOPN", LabEvidence::code + 2); }},
          {"somebody sent it", [](LabEvidence &f) { f.sent_by(50, 51, SIGILL, SI_USER, "SI_USER"); }}}},
        {S::came_to_int3,
         int3,
         {{"another instruction stands there",
           [](LabEvidence &f) {
               f.image.memory = {};
               f.word(LabEvidence::code - 8, 0x9090909090909090);
           }},
          {"what stands there was not captured", [](LabEvidence &f) { f.registers().rip += 0x1000; }},
          {"a single step", [](LabEvidence &f) { f.fault(SIGTRAP, TRAP_TRACE, "TRAP_TRACE", LabEvidence::code); }},
          {"somebody sent it", [](LabEvidence &f) { f.sent_by(50, 51, SIGTRAP, SI_USER, "SI_USER"); }}}},
        {S::seccomp_refused,
         refused,
         {{"another call was under way: the siginfo was sent", [](LabEvidence &f) { f.registers().orig_rax = 297; }},
          {"not seccomp's", [](LabEvidence &f) { f.fault(SIGSYS, 2, "SYS_USER_DISPATCH", 0); }},
          {"somebody sent it", [](LabEvidence &f) { f.sent_by(50, 51, SIGSYS, SI_USER, "SI_USER"); }}}},
    };
}

} // namespace incident::postmortem::test
