// Who the process is, from two sources: what its /proc said while it was dying, and what the
// kernel side copied at the trigger.  The live ones are preferred; both may be missing or cut.
// Internal to capture/.
#pragma once

#include "capture/render/render.h"
#include "capture/render/render_redact.h"

#include <string>
#include <string_view>
#include <vector>

namespace incident::capture {

// A text and where it is from: "live", "kernel", or "none".  Redacted, hostile bytes.
struct Fact {
    std::string text;
    std::string_view from = "none";
    bool cut = false;
};

struct ProcessFacts {
    Fact exe, cmdline, cgroup;
    std::vector<std::string> argv;
    std::string unit, container, exec_name;
};
ProcessFacts facts_of(const RenderContext &context, const Redactor &redactor);

// Directory entries as the kernel side collects them, the last component first, joined root-first.
std::string joined_cgroup(const bpf::death_event &event);

// Build-id of the executable from its head as mapped; "" if that was not resident.
std::string exe_build_id(const bpf::death_event &event);

// Who sent the signal that triggered: what the last generated record of that number says, else
// siginfo.  pid 0 with known == false: nobody did (a fault), or nobody knows.
struct Sender {
    bool known = false;
    std::uint32_t pid = 0, tid = 0, uid = 0;
    std::string comm;
};
Sender sender_of(const ProcessSnapshot &process);

} // namespace incident::capture
