// What the judges of one incident look at, and how they say where something is.
#pragma once

#include "postmortem/unwind/place_text.h"
#include "postmortem/verdict/verdict.h"

#include <optional>
#include <span>
#include <string_view>

namespace incident::postmortem {

using Names = std::span<const std::string_view>;

struct Evidence {
    const Incident &incident;
    const CrashImage &image;
    const Analysis &analysis;
    const capture::Bundle &bundle;
    const HeapFindings *heap = nullptr; // null: not recorded

    const user_regs_struct *registers() const; // of the thread it happened in; null: not captured
    const ThreadStack *stack() const;          // … unwound; null: not
    // The innermost frame whose function is one of these; null: none.
    const Frame *frame_of(Names functions) const;
    // The first frame outside of it that is neither inlined into it nor one of these; null: none.
    const Frame *caller_of(const Frame &frame, Names passed_over = {}) const;
    // It was interrupted by a signal handler that is on the stack.
    bool behind_signal_frame(const Frame &frame) const;
    JsonView signal() const { return incident.view()["signal"]; }
    // SIGSEGV and kin that the thread's own instruction raised: si_code is the kernel's (sigaction(2)), and the thread
    // was in no system call, such as the one a handler passes its siginfo on with (rt_tgsigqueueinfo(2)).
    bool is_fault() const;
    std::optional<std::uint64_t> fault_address() const; // si_addr, of a fault
    // The record of the free() that the thread has died in; null: in none, or it left no record of its own.
    const capture::HeapHistoryRecord *free_under_way() const;
    std::uint32_t sender() const; // tgid; 0 unknown
};

// "SIGSEGV (SEGV_MAPERR) at 0x10" as the kernel said it.
std::string signal_fact(const Evidence &evidence);

// Each says nothing where it is not about its matter.
std::optional<Claim> judge_heap(const Evidence &evidence);        // what the recorded heap proves
std::optional<Claim> judge_heap_check(const Evidence &evidence);  // what it knows of where the allocator has stopped
std::optional<Claim> judge_first_fault(const Evidence &evidence); // a fault it had a handler for, before it died
std::optional<Claim> judge_fault(const Evidence &evidence);       // SIGSEGV, SIGBUS
std::optional<Claim> judge_trap(const Evidence &evidence);        // SIGFPE, SIGILL, SIGTRAP, SIGSYS
std::optional<Claim> judge_abort(const Evidence &evidence);       // SIGABRT raised by the process itself
std::optional<Claim> judge_killed(const Evidence &evidence);      // a signal somebody sent
std::optional<Claim> judge_oom(const Evidence &evidence);         // chosen by the OOM killer
std::optional<Claim> judge_waiting(const Evidence &evidence);     // blocked, or a slow call

} // namespace incident::postmortem
