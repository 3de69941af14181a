// A set of facts put together by hand, and what the verdict makes of it: thread 100 of process 100, at one instruction
// of "use" in /bin/x.  Each fact a test does not set is one that says nothing.
#pragma once

#include "postmortem/verdict/evidence.h"
#include "state.h"

#include <gmock/gmock.h>

#include <csignal>
#include <string>
#include <vector>

namespace incident::postmortem::test {

class VerdictLab : public testing::Test {
protected:
    static constexpr std::uint64_t code = 0x401000, trigger = 1'000'000'000;

    VerdictLab();

    // A signal the kernel raised for what the thread did.
    void fault(int number, int si_code, const std::string &code_name, std::uint64_t address);
    // One that the thread sent itself; with a record of the call that did.
    void sent_itself(int number, int si_code = -6, const std::string &code_name = "SI_TKILL");
    void aborts(const std::vector<std::string> &frames, const std::string &message = "");
    // The instruction accesses memory through these; its address is what they give together.
    Instruction::Operand &accesses(const std::string &base, std::int64_t displacement, const std::string &index = "",
                                   bool write = false);
    void maps(const std::string &text);
    // The stack's functions, innermost first, of /bin/x or of the library that is named with a colon:
    // "libc.so.6:abort".
    void frames(const std::vector<std::string> &names);
    // A line of the timeline.
    void signal_line(std::int64_t before_ns, int number, int si_code, const std::string &code_name,
                     std::optional<std::uint64_t> address, const std::string &phase,
                     const std::string &disposition = "", std::uint32_t tid = 100, bool is_trigger = false);
    void call_line(std::int64_t before_ns, const std::string &name, const std::vector<std::string> &args,
                   std::int64_t ret);
    void limits(const std::string &text) { limits_ = text; }

    user_regs_struct &registers() { return *image.threads[0].registers; }
    // All claims, one a line; "" where nothing is said.
    std::string said();
    Verdict verdict();

    CrashImage image;
    Analysis analysis;
    Json record;

private:
    State state_;
    std::string timeline_, limits_;
    int bundles_ = 0;
};

} // namespace incident::postmortem::test
