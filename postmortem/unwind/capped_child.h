// Runs work on hostile bytes in a forked child. The child has limits on what it may use, and answers in lines.
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
    std::uint64_t memory_bytes = 1u << 30; // address space in addition to what it starts with
    unsigned cpu_seconds = 10;
    std::uint64_t file_bytes = 0;           // how much it may write to files
    unsigned descriptors = 256;             // how many it may have open
    std::uint64_t answer_bytes = 64u << 20; // read from it
    bool drop_privileges = true;            // if root: becomes nobody, and cannot start processes
    std::function<void()> before_drop;      // runs in the child, to open files that only root may open
};

struct ChildEnd {
    bool done = false;          // it finished
    bool out_of_memory = false; // it needed more than its limit
    std::string why;            // if not done: "SIGSEGV", "more than 10 s of CPU time", "more than 5000 ms" …
    std::uint32_t progress = UINT32_MAX; // the last number it stored
};

// Ends the child because memory ran out. A C library calls it when an allocation fails.
[[gnu::noreturn]] void exit_out_of_memory(); // libdw asks for gcc's attribute

using AnswerLine = std::function<void(std::string_view line)>;

// `work` runs in the child. Each line of its answer (without newline) is given to on_line in this process, in order, as
// soon as it arrives. The child's standard streams are /dev/null.
ChildEnd run_capped(const ChildCaps &caps,
                    const std::function<void(const AnswerLine &answer, std::atomic<std::uint32_t> *progress)> &work,
                    const AnswerLine &on_line);

} // namespace incident::postmortem
