// Call stacks of allocations and frees, unwound over the piece of stack that was kept of each.  Internal to unwind/.
#pragma once

#include "postmortem/unwind/child_analysis.h"
#include "postmortem/unwind/stack.h"

namespace incident::postmortem {

inline constexpr std::size_t call_frames_max = 1u << 20; // distinct ones, of all call stacks
inline constexpr unsigned call_stack_frames_max = 128;   // of one; 64 return addresses fit into what was kept

// In the child: answers what `known` lacks, until the time for it is over.  A frame is answered once.
void answer_call_stacks(CallStackRecords records, const AnalyseOptions &options, ModuleSet &modules, StackNamer &namer,
                        const Findings &known, const AnswerLine &answer);
// In the parent: whether that line was about them.
bool add_call_stack(JsonView line, Findings &findings);

} // namespace incident::postmortem
