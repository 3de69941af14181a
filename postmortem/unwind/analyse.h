// A bundle's stacks unwound and named, offline, whatever its bytes and the files beside it hold.
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
    // Of all children together; one that does not come to its end leaves half of what is left to the next.
    std::chrono::milliseconds time{10000};
    std::uint64_t memory_bytes = 1u << 30;            // each child, beyond what it was born with
    unsigned cpu_seconds = 10;                        // each child
    unsigned frames_max = 256;                        // a thread
    std::chrono::milliseconds call_stacks_time{3000}; // for call stacks of the heap, of each child
    bool debuginfod = false; // ask the servers of $DEBUGINFOD_URLS for what modules on a stack lack
    std::chrono::milliseconds debuginfod_time{60000}; // for all of its downloads
    std::string debug_root = "/usr/lib/debug";
    // The bundle is of this boot: where the pages of its vdso were not captured, they are the ones mapped here.
    bool this_boot = false;
    bool install_hints = true; // ask dpkg whose the modules without debug info are
};

// How often a child is started again without the module that ended the one before.
inline constexpr unsigned analyse_reruns_max = 4;
// How often debuginfod is asked for what came on a stack since it was asked.
inline constexpr unsigned debuginfod_rounds_max = 4;

// More work on the same hostile files, done in the same capped child after the stacks.
struct ChildWork {
    std::function<Json()> work;
    Json result; // null: it did not come to its end
};

// Call stacks of the heap, the most wanted first.
using CallStackRecords = std::span<const capture::HeapStackRecord *const>;

// files: of open_module_files, one for each of image.modules.  All parsing happens in capped children; what
// ended one stands in the notes, and threads it had not come to have their instruction pointer only.  Call stacks
// come after all else; those there was no time for are not in the answer.
Analysis analyse(const CrashImage &image, const std::vector<ModuleFile> &files, const AnalyseOptions &options,
                 ChildWork *more = nullptr, CallStackRecords call_stacks = {});

} // namespace incident::postmortem
