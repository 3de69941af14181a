// The work of the capped child: it analyses stacks and the details of the crashed thread, and answers line by line.
#pragma once

#include "postmortem/unwind/analyse.h"
#include "postmortem/unwind/capped_child.h"
#include "postmortem/unwind/module_set.h"

#include <optional>
#include <vector>

namespace incident::postmortem {

// What is known so far, from this and earlier children.
struct Findings {
    std::vector<std::optional<ThreadStack>> stacks;  // by thread
    std::vector<std::optional<ModuleState>> modules; // by module, then the vdso
    std::optional<Instruction> instruction;
    std::optional<Interrupted> interrupted;
    std::optional<CallToNowhere> call;
    bool particulars_done = false; // instruction, interruption by a signal, arguments, exception
    unsigned argument_frame = 0;
    std::vector<Argument> arguments;
    std::optional<Exception> exception;
    std::string go_fatal_error;
    std::vector<std::string> notes;
    bool more_done = false;
    Json more;
    std::vector<Frame> call_frames;
    std::vector<std::optional<CallStack>> call_stacks; // by record
};

// Runs in the child. Answers with what `known` lacks.
void analyse_in_child(const CrashImage &image, std::vector<ModuleInput> inputs, const AnalyseOptions &options,
                      const ChildWork *more, CallStackRecords call_stacks, const Findings &known,
                      const AnswerLine &answer, std::atomic<std::uint32_t> *progress);

// Runs in the parent. Adds one line of an answer, which may be hostile.
void add_answer(std::string_view line, Findings &findings);

} // namespace incident::postmortem
