// The signals of a bundle's timeline, in the form that the judges need.
#pragma once

#include "capture/bundle/bundle.h"
#include "postmortem/read/json_view.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace incident::postmortem {

struct SignalLine {
    std::int64_t t_ns = 0;
    std::uint32_t tid = 0; // the thread that got it
    int number = 0, code = 0;
    std::string name, code_name;
    std::optional<std::uint64_t> address;
    bool delivered = false;       // false: it was generated
    bool handled = false;         // delivered to a handler
    std::uint32_t sender_pid = 0; // who generated it by a system call; 0: nobody did
    bool trigger = false;

    // True if the kernel raised it for an address that the thread used (sigaction(2)): SIGSEGV and similar signals.
    bool is_fault() const;
};

// In the order of time.
std::vector<SignalLine> signal_lines(const capture::Bundle &bundle);

} // namespace incident::postmortem
