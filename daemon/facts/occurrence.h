// Something that may make a rule fire for a process that lives on: what the rules are
// asked, what the bundle will say, and whom it is about.
#pragma once

#include "bpf/event.h"
#include "capture/collect/trigger.h"
#include "daemon/plan/rule_history.h"
#include "rules/engine/engine.h"

#include <string>

namespace incident::daemon {

struct Occurrence {
    rules::Event event;
    capture::Trigger trigger;
    bpf::event_header whom{}; // process and thread; tgid 0: nobody (idle task, an unknown submitter)
    std::string comm;         // of the thread
    bool captured = false;    // the kernel side sends the thread's own capture behind it
    int dumped = 0;           // signal the kernel side has already sent it …
    std::optional<RuleHistory::Condition> dumped_by; // … because of this, as it was then
};

} // namespace incident::daemon
