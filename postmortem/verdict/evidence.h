// The evidence that a verdict on one incident rests on, and how the judges name places in it.
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

    const user_regs_struct *registers() const; // the registers of the thread it happened in; null: not captured
    const ThreadStack *stack() const;          // its unwound stack; null: not unwound
    // The innermost frame of one of these functions; null: none.
    const Frame *frame_of(Names functions) const;
    // The first frame outside `frame` that is not inlined into it and is not one of these functions; null: none.
    const Frame *caller_of(const Frame &frame, Names passed_over = {}) const;
    JsonView signal() const { return incident.view()["signal"]; }
    // True if the thread's own instruction raised the signal (SIGSEGV and similar ones). Then si_code is the kernel's
    // (sigaction(2)), and the thread was in no system call. A handler can pass on its siginfo with
    // rt_tgsigqueueinfo(2), and that is not a fault.
    bool is_fault() const;
    std::optional<std::uint64_t> fault_address() const; // si_addr, of a fault
    // The record of the free() in which the thread died; null: it died in none, or that free() left no record.
    const capture::HeapHistoryRecord *free_under_way() const;
    std::uint32_t sender() const; // tgid; 0 unknown
    // The signal is SIGABRT, raised as abort(3) does: by tgkill(2), from the process itself.
    bool aborted_itself() const;
    // abort(3) has raised SIGABRT in vain, for process 1 of a pid namespace does not die of it, and has come to the hlt
    // that stands behind, which no user's program may execute.
    bool halted_in_abort() const;
    std::string how_it_aborted() const; // the fact, of these two
    // The soft limit of this name in process/limits ("Max file size  10  10  bytes"); nothing: none, or not known.
    std::optional<std::uint64_t> limit(std::string_view name) const;
};

bool is_one_of(const Frame &frame, Names names); // by its source_name()
// "SIGSEGV (SEGV_MAPERR) at 0x10" as the kernel said it.
std::string signal_fact(const Evidence &evidence);

// Each judge returns nothing if the incident is not of its kind.
std::optional<Claim> judge_heap(const Evidence &evidence); // what the recorded heap proves
std::optional<Claim>
judge_heap_check(const Evidence &evidence); // what the heap's records say about an allocator's check that failed
std::optional<Claim>
judge_first_fault(const Evidence &evidence);                  // a fault that went to a handler, before the process died
std::optional<Claim> judge_fault(const Evidence &evidence);   // SIGSEGV, SIGBUS
std::optional<Claim> judge_trap(const Evidence &evidence);    // SIGFPE, SIGILL, SIGTRAP, SIGSYS
std::optional<Claim> judge_panic(const Evidence &evidence);   // the SIGABRT of a panic of Rust's or Go's
std::optional<Claim> judge_abort(const Evidence &evidence);   // another SIGABRT raised by the process itself
std::optional<Claim> judge_killed(const Evidence &evidence);  // a signal somebody sent
std::optional<Claim> judge_oom(const Evidence &evidence);     // chosen by the OOM killer
std::optional<Claim> judge_waiting(const Evidence &evidence); // blocked, or a slow call

} // namespace incident::postmortem
