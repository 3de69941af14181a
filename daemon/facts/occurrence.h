// Something that may make a rule fire for a process that lives on: the event that the rules decide about, what the
// bundle will say of it, and its subject.
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
    bpf::event_header subject{}; // process and thread; tgid 0: none (the idle task, or an unknown submitter)
    std::string comm;            // of the thread
    bool captured = false;       // the kernel side sends the thread's own capture next
    int dumped = 0;              // the signal that the kernel side has already sent …
    std::optional<RuleHistory::Condition> dumped_by; // … because of this condition, as it was then
};

} // namespace incident::daemon
