// Says which process it is, from two sources: what its /proc said while it was dying, and what the kernel side copied
// at the trigger.  /proc is preferred; both may be missing or cut.  Internal to capture/.
#pragma once

#include "capture/bundle/json_member.h"
#include "capture/render/render.h"
#include "capture/render/render_redact.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace incident::capture {

// A text and its source: "live", "kernel", or "none".  It is redacted and holds hostile bytes.
struct Sourced {
    std::string text;
    std::string_view from = "none";
    bool cut = false;
};

struct ProcessFields {
    Sourced exe, cmdline, cgroup;
    std::vector<std::string> argv;
    std::string unit, container, exec_name;
    std::string exe_on_host; // "": it is at exe itself, or not known
    Json container_info;     // id, runtime, name, image, …; null: in none
};
ProcessFields process_fields(const RenderContext &context, const Redactor &redactor);

// The build-id of the executable, from its first bytes as mapped; "" if these were not in memory.
// abi_name() of the process.
std::string_view isa_name(const ProcessSnapshot &process);
std::string exe_build_id(const bpf::death_event &event);

// Who sent the signal that was the trigger: as the last generated record of this number says, else as siginfo says. pid
// 0 and not known: nobody sent it (a fault), or nobody knows.
struct Sender {
    bool known = false;
    std::uint32_t pid = 0, tid = 0, uid = 0;
    std::string comm;
};
Sender sender_of(const ProcessSnapshot &process);

} // namespace incident::capture
