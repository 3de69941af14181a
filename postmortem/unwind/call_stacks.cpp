#include "postmortem/unwind/call_stacks.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <tuple>

namespace incident::postmortem {

namespace {

using Clock = std::chrono::steady_clock;

ImageThread thread_of(const capture::HeapStackRecord &record) {
    ImageThread thread;
    user_regs_struct &registers = thread.registers.emplace();
    registers = {};
    registers.rip = record.ip;
    registers.rsp = record.sp;
    registers.rbp = record.bp;
    registers.rbx = record.bx;
    registers.r12 = record.r12;
    registers.r13 = record.r13;
    registers.r14 = record.r14;
    registers.r15 = record.r15;
    return thread;
}

// The child has to end by itself: what it answered before its CPU time is used up counts, but it would be run again.
bool cpu_left(unsigned seconds) {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<unsigned>(used.tv_sec) < seconds - seconds / 4;
}

} // namespace

void answer_call_stacks(CallStackRecords records, const AnalyseOptions &options, ModuleSet &modules, StackNamer &namer,
                        const Findings &known, const AnswerLine &answer) {
    const Clock::time_point deadline = Clock::now() + options.call_stacks_time;
    std::map<std::tuple<std::uint64_t, std::string, std::string, unsigned, std::string>, std::size_t> numbers;
    std::size_t next = known.call_frames.size();
    for (std::size_t i = 0; i < records.size(); ++i) {
        if (known.call_stacks[i])
            continue;
        if (Clock::now() >= deadline || !cpu_left(options.cpu_seconds))
            break;
        const capture::HeapStackRecord &record = *records[i];
        // Not the stack as it was at the end: other calls have written over it since.
        ImageMemory slice;
        slice.add(record.sp, {reinterpret_cast<const char *>(record.slice),
                              std::min<std::size_t>(record.length, sizeof record.slice)});
        modules.use_captured(slice);
        const NamedStack named = namer.name(thread_of(record), call_stack_frames_max);
        modules.use_captured(modules.image().memory);
        Json frames = Json::array();
        for (const Frame &frame : named.stack.frames) {
            const auto [it, fresh] =
                numbers.try_emplace({frame.ip, frame.symbol, frame.file, frame.line, frame.how}, next);
            if (fresh) {
                if (next >= call_frames_max) {
                    numbers.erase(it);
                    return;
                }
                answer(dump_json(Json{{"call_frame", to_json(frame)}}));
                ++next;
            }
            frames.push_back(it->second);
        }
        answer(dump_json(Json{{"call_stack", i},
                              {"frames", std::move(frames)},
                              {"truncated", named.stack.truncated},
                              {"reason", named.stack.reason}}));
    }
}

bool add_call_stack(JsonView line, Findings &findings) {
    if (line["call_frame"].is_object()) {
        if (findings.call_frames.size() < call_frames_max)
            findings.call_frames.push_back(from_json<Frame>(line["call_frame"]));
        return true;
    }
    const auto record = line["call_stack"].natural();
    if (!record)
        return false;
    if (*record >= findings.call_stacks.size() || findings.call_stacks[*record])
        return true;
    CallStack stack;
    stack.truncated = line["truncated"].flag();
    stack.reason = line["reason"].text().substr(0, analysis_text_max);
    line["frames"].each([&](JsonView number) {
        const std::uint64_t frame = number.natural().value_or(UINT64_MAX);
        if (frame < findings.call_frames.size() && stack.frames.size() < call_stack_frames_max)
            stack.frames.push_back(static_cast<std::uint32_t>(frame));
    });
    findings.call_stacks[*record] = std::move(stack);
    return true;
}

} // namespace incident::postmortem
