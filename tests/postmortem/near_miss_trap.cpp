// Instructions and calls that bring a signal about, and facts close to them.
#include "near_miss.h"

#include <cstring>

namespace incident::postmortem::test {

namespace {

using S = Sentence;

void divides(Facts &f, std::uint64_t by) {
    f.instruction("idiv %ecx");
    f.registers().rcx = by;
    f.fault(SIGFPE, FPE_INTDIV, "FPE_INTDIV", Facts::code);
}

void ud2(Facts &f) {
    f.instruction("ud2");
    f.fault(SIGILL, ILL_ILLOPN, "ILL_ILLOPN", Facts::code);
}

void refused(Facts &f) {
    f.fault(SIGSYS, 1, "SYS_SECCOMP", 0);
    const std::int32_t number = 110; // getppid
    const std::uint32_t arch = 0xc000003e;
    std::memcpy(f.image.siginfo.data() + 24, &number, sizeof number);
    std::memcpy(f.image.siginfo.data() + 28, &arch, sizeof arch);
    f.registers().orig_rax = 110;
}

const std::vector<NearMiss> no_division = {
    {"the instruction is none", [](Facts &f) { f.analysis.instruction->text = "mov %ecx,%eax"; }},
    {"a division of floating-point numbers", [](Facts &f) { f.fault(SIGFPE, FPE_FLTDIV, "FPE_FLTDIV", Facts::code); }},
    {"the fault was of another instruction",
     [](Facts &f) { f.fault(SIGFPE, FPE_INTDIV, "FPE_INTDIV", Facts::code + 3); }},
    {"what it divides by was not captured",
     [](Facts &f) {
         f.accesses("rax", 0);
         f.analysis.instruction->text = "idivl (%rax)";
     }},
    {"a system call was under way: the siginfo was sent", [](Facts &f) { f.registers().orig_rax = 297; }},
};

std::vector<NearMiss> and_also(std::vector<NearMiss> near_misses, NearMiss another) {
    near_misses.push_back(another);
    return near_misses;
}

} // namespace

std::vector<SentenceCase> trap_cases() {
    return {
        {S::division_by_zero, [](Facts &f) { divides(f, 0); },
         and_also(no_division, {"by something else", [](Facts &f) { f.registers().rcx = 1; }})},
        {S::division_too_large, [](Facts &f) { divides(f, 0xffffffff); },
         and_also(no_division, {"by zero, as the operand sees it", [](Facts &f) { f.registers().rcx = 1ull << 32; }})},
        {S::came_to_ud2,
         ud2,
         {{"an instruction that this processor has not", [](Facts &f) { f.analysis.instruction->text = "vpaddd"; }},
          {"the fault was of another instruction",
           [](Facts &f) { f.fault(SIGILL, ILL_ILLOPN, "ILL_ILLOPN", Facts::code + 2); }},
          {"somebody sent it", [](Facts &f) { f.sent_by(50, 51, SIGILL, SI_USER, "SI_USER"); }}}},
        {S::seccomp_refused,
         refused,
         {{"another call was under way: the siginfo was sent", [](Facts &f) { f.registers().orig_rax = 297; }},
          {"not seccomp's", [](Facts &f) { f.fault(SIGSYS, 2, "SYS_USER_DISPATCH", 0); }},
          {"somebody sent it", [](Facts &f) { f.sent_by(50, 51, SIGSYS, SI_USER, "SI_USER"); }}}},
    };
}

} // namespace incident::postmortem::test
