// What the heap says about an incident: the biographies of pointers in registers and on the stack, what grew, and the
// files that the bundle gets from it.
#pragma once

#include "capture/render/bundle_analysis.h"
#include "postmortem/heap/describe.h"
#include "postmortem/image/crash_image.h"
#include "postmortem/unwind/analyse.h"

#include <optional>

namespace incident::postmortem {

inline constexpr std::size_t heap_stack_words = 64; // counted upwards from the crashed thread's stack pointer

struct HeapPointer {
    std::vector<std::string> at; // "fault address", "rdi", "rsp+0x18", "last freed"
    Biography biography;
};

struct HeapFindings {
    Heap heap;
    HeapWords words;                           // has no places before add_names()
    std::vector<HeapPointer> pointers;         // first the fault address, then other pointers with a known allocation
    std::vector<std::uint64_t> allocators_own; // call stacks of the allocator's own frees, which are left out

    const Biography *of(std::uint64_t address) const; // null: it is not among the pointers
    // The thread's last record; null: none.
    const capture::HeapHistoryRecord *last_call(std::uint32_t tid) const;
};

// nullopt: the bundle has no heap. `image` must outlive the result.
std::optional<HeapFindings> find_heap(const capture::Bundle &bundle, const Incident &incident, const CrashImage &image);
HeapFindings find_heap(Heap heap, const Incident &incident, const CrashImage &image);
// All call stacks, in the order in which they are needed: first those of the pointers and those that may be the
// allocator's own, then by growth in the window, then by live bytes.
std::vector<const capture::HeapStackRecord *> stacks_by_need(const HeapFindings &findings);
// Adds names, and removes the allocator's own frees from the history: when a thread ends, glibc empties its cache
// through free() (tcache_thread_shutdown() in malloc/malloc.c), and that is not a second free. `analysis` and `image`
// must outlive the findings.
void add_names(HeapFindings &findings, const Analysis &analysis, const CrashImage &image);

// For incident.json's "heap": {as_of_ns, pointers[{at[], …biography}], growing[], largest[], unwound{}, notes[],
// reach}; growing and largest: [{stack, function, bytes, count, live_bytes, live, place, frames[]}]
Json heap_document(const HeapFindings &findings, const Analysis &analysis);
// heap/frames.json: {frames[], stacks{ID: {frames: [index], truncated, reason}}, allocators_own[], not_unwound};
// heap/growth.folded.
capture::BundleFiles heap_analysis_files(const HeapFindings &findings, const Analysis &analysis);

} // namespace incident::postmortem
