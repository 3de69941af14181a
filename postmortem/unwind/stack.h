// Names a thread's stack: functions, functions inlined into them, lines.
#pragma once

#include "postmortem/unwind/analysis.h"
#include "postmortem/unwind/perf_map.h"
#include "postmortem/unwind/walker.h"

#include <map>
#include <memory>

namespace incident::postmortem {

// Where a shown frame comes from.
struct FrameSource {
    std::size_t walked = 0; // index in Walk::frames
    std::size_t module = ModuleSet::none;
    const Place *place = nullptr; // in its debug info, which owns it; null: none
    bool real_registers = true;   // false: it is a tail call, whose frame is gone
};

struct NamedStack {
    ThreadStack stack;
    Walk walk;
    std::vector<FrameSource> sources; // of stack.frames
};

class StackNamer {
public:
    explicit StackNamer(ModuleSet &modules) : modules_(modules) {}
    // Returns at most frames_max frames; inlined ones count too.
    NamedStack name(const ImageThread &thread, std::size_t frames_max);
    std::vector<std::string> take_notes();

private:
    const std::vector<UserAddress> &tail_calls_between(const WalkFrame &callee, const WalkFrame &caller);
    void add_frames(NamedStack &into, std::size_t walked, UserAddress ip, UserAddress look_up, std::string_view how);
    bool add_go_frames(NamedStack &into, const Frame &frame, const FrameSource &source, UserAddress look_up);
    void name_by_symbol(Frame &frame, std::size_t module, UserAddress look_up);
    void name_by_perf_map(Frame &frame, UserAddress look_up);
    void name_generated(Frame &frame, const capture::Mapping *mapping, UserAddress look_up);

    ModuleSet &modules_;
    // A cache of tail calls, by return address and the address in the callee, because recursion asks for the same ones.
    std::map<std::pair<UserAddress, UserAddress>, std::vector<UserAddress>> tail_calls_;
    std::unique_ptr<PerfMap> perf_map_;                        // parsed when generated code is first met
    std::map<std::string_view, std::string_view> told_naming_; // what would have named code, by who may have made it
    std::vector<std::string> notes_;
};

// The stack of a thread that was not unwound: only its instruction pointer.
ThreadStack instruction_pointer_only(const CrashImage &image, const ImageThread &thread, const std::string &reason);

} // namespace incident::postmortem
