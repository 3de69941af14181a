// Unwinds and names a bundle's stacks offline. The bundle's bytes and the files may be hostile.
#pragma once

#include "capture/collect/heap.h"
#include "postmortem/image/crash_image.h"
#include "postmortem/image/module_files.h"
#include "postmortem/unwind/analysis.h"

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace incident::postmortem {

struct AnalyseOptions {
    // For all children together. Each child may use half of the time that is left, so that the next has some if it
    // fails.
    std::chrono::milliseconds time{10000};
    std::uint64_t memory_bytes = 1u << 30;            // for each child, in addition to what it starts with
    unsigned cpu_seconds = 10;                        // each child
    unsigned frames_max = 256;                        // a thread
    std::chrono::milliseconds call_stacks_time{3000}; // for call stacks of the heap, of each child
    bool debuginfod = false; // ask the servers of $DEBUGINFOD_URLS for the missing files of modules on a stack
    std::chrono::milliseconds debuginfod_time{60000}; // for all of its downloads
    std::string debug_root = "/usr/lib/debug";
    // The bundle was written in this boot. If its vdso was not captured, our own mapped vdso has the same bytes.
    bool this_boot = false;
    bool install_hints = true; // ask dpkg for the packages of modules without debug info
};

// How many times a child is started again, each time without the module that ended the previous one.
inline constexpr unsigned analyse_reruns_max = 4;
// How many times debuginfod is asked again for modules that have newly appeared on a stack.
inline constexpr unsigned debuginfod_rounds_max = 4;

// Other work on the same hostile files. The same capped child does it after the stacks.
struct ChildWork {
    std::function<Json()> work;
    Json result; // null: it did not finish
};

// Call stacks of the heap, the most wanted first.
using CallStackRecords = std::span<const capture::HeapStackRecord *const>;

// `files` come from open_module_files, one for each of image.modules. All parsing happens in capped children. If one
// dies, the notes say why, and threads that were not unwound have only their instruction pointer. Call stacks come
// last; if the time is over, the rest of them is missing in the answer.
Analysis analyse(const CrashImage &image, const std::vector<ModuleFile> &files, const AnalyseOptions &options,
                 ChildWork *more = nullptr, CallStackRecords call_stacks = {});

} // namespace incident::postmortem
