// All sentences that a verdict can say, and all clauses that can be added to them. Claim takes its words only from this
// table. For each sentence tests/postmortem/verdict_near_miss_test.cpp has evidence that makes it true, and at least
// two slightly different sets of evidence for which it must not be said.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace incident::postmortem {

enum class Sentence : std::size_t {
    // SIGSEGV and SIGBUS
    null_dereference,
    null_offset,
    low_address,
    null_argument,
    entered_with_null,
    impossible_address,
    impossible_return,
    misaligned,
    jump_to_null,
    null_call,
    jump_close_to_null,
    jump_not_executable,
    jump_unmapped,
    jump_to_kernel,
    stack_overflow,
    calls_itself,
    call_one_another,
    read_only_memory,
    no_permission,
    nothing_mapped,
    since_munmap,
    kernels_address,
    no_file_page,
    // SIGFPE, SIGILL, SIGTRAP, SIGSYS
    division_by_zero,
    division_too_large,
    came_to_ud2,
    came_to_int3,
    seccomp_refused,
    // SIGABRT
    stack_smashed,
    stack_smashed_somewhere,
    assertion_failed,
    mutex_damaged,
    allocator_double_free,
    allocator_corrupted_or_twice,
    allocator_corrupted_or_wrong,
    allocator_any,
    allocator_corrupted,
    fortify_failed,
    glibcs_words,
    terminate_called,
    pure_virtual,
    joinable_thread,
    exception_uncaught,
    exception_kept_in,
    exception_type,
    exception_what,
    abort_called,
    rust_panicked,
    go_panicked,
    go_gave_up,
    go_says,
    panic_reason,
    // signals that were sent
    killed_by,
    sent_itself,
    file_too_large,
    cpu_time_used_up,
    out_of_memory_cgroup,
    out_of_memory_some_cgroup,
    out_of_memory_host,
    out_of_memory_cpuset,
    out_of_memory_policy,
    out_of_memory_chosen,
    memory_limit,
    // a fault before the signal that killed
    handled_then_sent,
    handled_then_raised,
    fault_came_first,
    // the recorded heap
    used_after_free,
    used_after_free_near,
    freed_pointer_followed,
    overrun,
    underrun,
    reached_past,
    reached_before,
    freed_twice,
    unless_unrecorded,
    freed_in_the_middle,
    about_to_free,
    // processes that live on
    has_been_blocked,
    was_blocked,
    woken_by,
    spent_computing,
    spent_runnable,
    spent_blocked,
    mostly_in_call,
};

struct SentenceWords {
    Sentence sentence;
    std::string_view format; // in {fmt}'s syntax
};

inline constexpr auto sentences = std::to_array<SentenceWords>({
    {Sentence::null_dereference, "null dereference: {} {} at a null pointer"},
    {Sentence::null_offset, "null dereference: {} {} at offset {:#x} of a null pointer"},
    {Sentence::low_address, "bad address: {} {} at {:#x}, in the lowest {}, where nothing is mapped"},
    {Sentence::null_argument, "; its argument {} is null"},
    {Sentence::entered_with_null, "; {} was entered with 0 in {}"},
    {Sentence::impossible_address, "bad address: {} {} at {:#x}, which is no possible address"},
    {Sentence::impossible_return, "bad return address: {} returns to {:#x}, which is no possible address"},
    {Sentence::misaligned, "misaligned address: {} {} at {:#x}, which is no multiple of {} as {} needs it"},
    {Sentence::jump_to_null, "jump to null"},
    {Sentence::null_call, ": a null function pointer was called"},
    {Sentence::jump_close_to_null, "jump to {:#x}, close to null"},
    {Sentence::jump_not_executable, "jump into memory that is not executable: {}"},
    {Sentence::jump_unmapped, "jump to {:#x}, where nothing is mapped"},
    {Sentence::jump_to_kernel, "jump to {:#x}, which is the kernel's"},
    {Sentence::stack_overflow, "stack overflow: thread {} has used up its {} of stack"},
    {Sentence::calls_itself, "; {} calls itself"},
    {Sentence::call_one_another, "; {} call one another"},
    {Sentence::read_only_memory, "write to read-only memory: {} {} in {}"},
    {Sentence::no_permission, "access to memory without permission: {} {} in {}"},
    {Sentence::nothing_mapped, "bad address: {} {} at {:#x}, where nothing is mapped"},
    {Sentence::since_munmap, " any more since a munmap()"},
    {Sentence::kernels_address, "bad address: {} {} at {:#x}, which is the kernel's"},
    {Sentence::no_file_page,
     "a page of a mapped file could not be had (beyond its end, not readable, or no room for it): {}"},
    {Sentence::division_by_zero, "integer division by zero in {}"},
    {Sentence::division_too_large, "integer division whose result does not fit, in {}"},
    {Sentence::came_to_ud2, "illegal instruction: {} came to ud2, which compilers put where a program is to stop"},
    {Sentence::came_to_int3,
     "breakpoint: {} came to int3, which compilers and debuggers put where a program is to stop"},
    {Sentence::seccomp_refused, "a seccomp filter stopped the system call {}"},
    {Sentence::stack_smashed, "stack smashing detected: the guard on the stack of {} had changed"},
    {Sentence::stack_smashed_somewhere, "stack smashing detected: the guard on a function's stack had changed"},
    {Sentence::assertion_failed, "assertion failed"},
    {Sentence::mutex_damaged,
     "a mutex is damaged: {}() finds in it what no call leaves there; it was destroyed while in "
     "use, unlocked by a thread that had not locked it, or overwritten"},
    {Sentence::allocator_double_free, "double free"},
    {Sentence::allocator_corrupted_or_twice, "heap corrupted or freed twice, found by glibc's allocator"},
    {Sentence::allocator_corrupted_or_wrong,
     "heap corrupted or a wrong pointer given to it, found by glibc's allocator"},
    {Sentence::allocator_any, "heap corrupted, freed twice or a wrong pointer given to it, found by glibc's allocator"},
    {Sentence::allocator_corrupted, "heap corrupted, found by glibc's allocator"},
    {Sentence::fortify_failed, "a check compiled in (_FORTIFY_SOURCE) has failed in {}"},
    {Sentence::glibcs_words, ": {}"},
    {Sentence::terminate_called, "std::terminate() was called"},
    {Sentence::pure_virtual, "a pure virtual function was called by {}"},
    {Sentence::joinable_thread, ": a std::thread was {} that nobody had joined"},
    {Sentence::exception_uncaught, "uncaught C++ exception"},
    {Sentence::exception_kept_in, "C++ exception that could not leave a function that lets none out"},
    {Sentence::exception_type, "{} of type {}"}, // a comma where a clause comes before
    {Sentence::exception_what, ": {}"},
    {Sentence::abort_called, "{} called abort()"},
    {Sentence::rust_panicked, "Rust panicked in {}"},
    {Sentence::go_panicked, "Go panicked in {}"},
    {Sentence::go_gave_up, "Go's runtime gave up"},
    {Sentence::go_says, ": {}"},
    {Sentence::panic_reason, ": {}"},
    {Sentence::killed_by, "killed by {}, which sent it {}"},
    {Sentence::sent_itself, "it sent {} to itself"},
    {Sentence::file_too_large, "a file was to grow beyond the process's limit, RLIMIT_FSIZE, of {}"},
    {Sentence::cpu_time_used_up, "it has used up the CPU time of its limit, RLIMIT_CPU"},
    {Sentence::out_of_memory_cgroup, "out of memory: cgroup {} reached its limit"},
    {Sentence::out_of_memory_some_cgroup, "out of memory: a cgroup it is in reached its limit"},
    {Sentence::out_of_memory_host, "out of memory: the host had none left"},
    {Sentence::out_of_memory_cpuset, "out of memory: the nodes its cpuset allows had none left"},
    {Sentence::out_of_memory_policy, "out of memory: the nodes its memory policy allows had none left"},
    {Sentence::out_of_memory_chosen, "out of memory: the OOM killer chose it"},
    {Sentence::memory_limit, " of {}"},
    {Sentence::handled_then_sent, "; it had a handler for that, and died of the {} it sent itself"},
    {Sentence::handled_then_raised, "; it had a handler for that, and died of {} ({})"},
    {Sentence::fault_came_first, "{} came first, {} before, and went to a handler; it died of the {} it sent itself"},
    {Sentence::used_after_free, "use after free: {} {} at offset {} of {}, {}"},
    {Sentence::used_after_free_near, "use after free: {} {} through a pointer into {}, {}"},
    {Sentence::freed_pointer_followed, "use after free: {} followed a pointer that stands at offset {} of {}, {}"},
    {Sentence::overrun, "overrun: {} {} {} bytes past the end of {}"},
    {Sentence::underrun, "underrun: {} {} {} bytes before {}"},
    {Sentence::reached_past, "{} {} {} bytes past the end of {}, which {} points into"},
    {Sentence::reached_before, "{} {} {} bytes before {}, which {} points into"},
    {Sentence::freed_twice, "double free: {:#x}, {}, was freed{} and {} later again{}"},
    {Sentence::unless_unrecorded, "; unless it was given out again by one of {} that left no record"},
    {Sentence::freed_in_the_middle, "free of a pointer into the middle of an allocation: {:#x} is {}"},
    {Sentence::about_to_free, "it was about to free {:#x}, {}"},
    {Sentence::has_been_blocked, "thread {} has been blocked for {} in {}"},
    {Sentence::was_blocked, "thread {} was blocked for {} in {}"},
    {Sentence::woken_by, ", until {}[{}] woke it"},
    {Sentence::spent_computing, "{} of the {} went into computing"},
    {Sentence::spent_runnable, "{} of the {} went into waiting for a CPU"},
    {Sentence::spent_blocked, "{} of the {} went into blocked"},
    {Sentence::mostly_in_call, ", mostly in {}()"},
});

static_assert([] {
    for (std::size_t i = 0; i < sentences.size(); ++i)
        if (sentences[i].sentence != static_cast<Sentence>(i))
            return false;
    return sentences.back().sentence == Sentence::mostly_in_call; // the last one
}());

constexpr std::string_view words_of(Sentence sentence) {
    return sentences[static_cast<std::size_t>(sentence)].format;
}

} // namespace incident::postmortem
