// Work on hostile bytes, in a forked child that can cost no more than its caps and answers in lines.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace incident::postmortem {

struct ChildCaps {
    std::chrono::milliseconds time{10000}; // wall clock
    std::uint64_t memory_bytes = 1u << 30; // address space beyond what it was born with
    unsigned cpu_seconds = 10;
    std::uint64_t file_bytes = 0;           // it may write
    unsigned descriptors = 256;             // beyond which it can open no more
    std::uint64_t answer_bytes = 64u << 20; // read from it
    bool drop_privileges = true;            // of root: becomes nobody, can start no process
    std::function<void()> before_drop;      // in the child, to open what root alone may
};

struct ChildEnd {
    bool done = false;                   // it came to its end
    bool out_of_memory = false;          // beyond its cap
    std::string why;                     // else: "SIGSEGV", "more than 10 s of CPU time", "more than 5000 ms" …
    std::uint32_t progress = UINT32_MAX; // what it stored last
};

// In the child: ends it for want of memory, where a C library asks what to do.
[[gnu::noreturn]] void exit_out_of_memory(); // libdw asks for gcc's attribute

using AnswerLine = std::function<void(std::string_view line)>;

// work runs in the child; what it answers (lines without newlines) is handed to on_line here, in order, as
// it comes.  The child's standard streams are /dev/null.
ChildEnd run_capped(const ChildCaps &caps,
                    const std::function<void(const AnswerLine &answer, std::atomic<std::uint32_t> *progress)> &work,
                    const AnswerLine &on_line);

} // namespace incident::postmortem
