// Evidence that a test puts together by hand, and the verdict on it: thread 100 of process 100 is at one instruction of
// "use" in /bin/x. A fact that the test does not set leads to no claim.
#pragma once

#include "heap_lab.h"
#include "postmortem/verdict/evidence.h"
#include "state.h"

#include <gmock/gmock.h>

#include <csignal>
#include <string>
#include <vector>

namespace incident::postmortem::test {

class LabEvidence {
public:
    static constexpr std::uint64_t code = 0x401000, trigger = 1'000'000'000;

    LabEvidence();

    // A signal the kernel raised for what the thread did.
    void fault(int number, int si_code, const std::string &code_name, std::uint64_t address);
    void maperr(std::uint64_t address) { fault(SIGSEGV, SEGV_MAPERR, "SEGV_MAPERR", address); }
    void accerr(std::uint64_t address) { fault(SIGSEGV, SEGV_ACCERR, "SEGV_ACCERR", address); }
    // One that the thread sent itself; with a record of the call that did.
    void sent_itself(int number, int si_code = -6, const std::string &code_name = "SI_TKILL");
    // One that another has sent; tid 0: there is no record of the call that did.
    void sent_by(std::uint32_t pid, std::uint32_t tid, int number, int si_code, const std::string &code_name);
    void aborts(const std::vector<std::string> &frames, const std::string &message = "");
    // The instruction accesses memory through these; its address is what they give together.
    Instruction::Operand &accesses(const std::string &base, std::int64_t displacement, const std::string &index = "",
                                   bool write = false);
    // An instruction without an operand in memory.
    void instruction(const std::string &text);
    void argument(const std::string &name, std::uint64_t value);
    void maps(const std::string &text);
    // A thread of glibc's with 64 KiB of stack above a guard of a page: 70000000-70001000-70011000.
    void small_stack();
    // The word that stands there was captured.
    void word(std::uint64_t address, std::uint64_t value);
    // The stack's functions, innermost first, of /bin/x or of the library that is named with a colon:
    // "libc.so.6:abort".
    void frames(const std::vector<std::string> &names);
    // A line of the timeline.
    void signal_line(std::int64_t before_ns, int number, int si_code, const std::string &code_name,
                     std::optional<std::uint64_t> address, const std::string &phase,
                     const std::string &disposition = "", std::uint32_t tid = 100, bool is_trigger = false);
    void call_line(std::int64_t before_ns, const std::string &name, const std::vector<std::string> &args,
                   std::int64_t ret);
    void no_timeline() { timeline_.clear(); }
    void limits(const std::string &text) { limits_ = text; }
    void kernel_log(const std::string &text) { kernel_log_ = text; }
    // 2 ms before it died the kernel raised SIGSEGV at 8, for which there was a handler.
    void handled(std::uint32_t tid = 100, const std::string &disposition = "handled");
    // That handler is still on the stack; the fault was through rax.
    void in_handler(std::uint64_t address = 8);

    user_regs_struct &registers() { return *image.threads[0].registers; }
    // All claims, one a line; "" where nothing is said.
    std::string said();
    Verdict verdict();

    CrashImage image;
    Analysis analysis;
    Json record;
    std::optional<HeapLab> heap; // recorded

private:
    State state_;
    std::string timeline_, limits_, kernel_log_;
    int bundles_ = 0;
};

class VerdictLab : public testing::Test, public LabEvidence {};

} // namespace incident::postmortem::test
