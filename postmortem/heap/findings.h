// What the heap says about an incident: the biographies of the pointers at hand, what grew, and the files of it.
#pragma once

#include "capture/render/bundle_analysis.h"
#include "postmortem/heap/describe.h"
#include "postmortem/image/crash_image.h"
#include "postmortem/unwind/analyse.h"

#include <optional>

namespace incident::postmortem {

inline constexpr std::size_t heap_stack_words = 64; // from the crashed thread's stack pointer up

struct HeapPointer {
    std::vector<std::string> at; // "fault address", "rdi", "rsp+0x18", "last freed"
    Biography biography;
};

struct HeapFindings {
    Heap heap;
    HeapWords words;                           // without places before add_names()
    std::vector<HeapPointer> pointers;         // the fault address first; of others those of which something is known
    std::vector<std::uint64_t> allocators_own; // call stacks of frees that the allocator made for itself: left out

    const Biography *of(std::uint64_t address) const; // null: not among the pointers
    // The thread's last record; null: none.
    const capture::HeapHistoryRecord *last_call(std::uint32_t tid) const;
};

// nullopt: the bundle has no heap.  image has to outlive it.
std::optional<HeapFindings> find_heap(const capture::Bundle &bundle, const Incident &incident, const CrashImage &image);
HeapFindings find_heap(Heap heap, const Incident &incident, const CrashImage &image);
// All call stacks: first those the pointers need and those that may be the allocator's own, then by growth in the
// window, then by what is alive.
std::vector<const capture::HeapStackRecord *> stacks_by_need(const HeapFindings &findings);
// Takes what the allocator freed for itself out of the history: glibc's cache of an ending thread is emptied through
// free() (tcache_thread_shutdown() in malloc/malloc.c), which is no second free.  analysis and image have to outlive
// it.
void add_names(HeapFindings &findings, const Analysis &analysis, const CrashImage &image);

// For incident.json's "heap": {as_of_ns, pointers[{at[], …biography}], growing[], largest[], unwound{}, notes[],
// reach}; growing and largest: [{stack, function, bytes, count, live_bytes, live, place, frames[]}]
Json heap_document(const HeapFindings &findings, const Analysis &analysis);
// heap/frames.json: {frames[], stacks{ID: {frames: [index], truncated, reason}}, allocators_own[], not_unwound};
// heap/growth.folded.
capture::BundleFiles heap_analysis_files(const HeapFindings &findings, const Analysis &analysis);

} // namespace incident::postmortem
