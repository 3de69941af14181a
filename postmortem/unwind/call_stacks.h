// Unwinds the call stacks of allocations and frees from the piece of stack that was kept for each. Internal to unwind/.
#pragma once

#include "postmortem/unwind/child_analysis.h"
#include "postmortem/unwind/stack.h"

namespace incident::postmortem {

inline constexpr std::size_t call_frames_max = 1u << 20; // different frames of all call stacks
inline constexpr unsigned call_stack_frames_max =
    128; // for one call stack; the kept piece has room for 64 return addresses

// Runs in the child. Answers with what `known` lacks, until the time is over. Each frame is sent once.
void answer_call_stacks(CallStackRecords records, const AnalyseOptions &options, ModuleSet &modules, StackNamer &namer,
                        const Findings &known, const AnswerLine &answer);
// Runs in the parent. True if the line was about call stacks.
bool add_call_stack(JsonView line, Findings &findings);

} // namespace incident::postmortem
